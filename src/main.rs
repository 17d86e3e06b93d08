use std::process::ExitCode;

fn main() -> ExitCode {
    ortalk::commands::main()
}
