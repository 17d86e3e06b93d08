//! What a graph takes and gives, checked against what its model folder says before anything is bound.

use std::fmt;

use ort::session::Session;
use ort::value::{Outlet, TensorElementType, ValueType};

/// An input or output as it should be. A length of `None` may differ from run to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    pub name: String,
    pub element: TensorElementType,
    pub shape: Vec<Option<usize>>,
}

impl Port {
    pub fn new(name: impl Into<String>, element: TensorElementType, shape: &[usize]) -> Self {
        Self { name: name.into(), element, shape: shape.iter().map(|size| Some(*size)).collect() }
    }

    pub fn any_length(mut self, axis: usize) -> Self {
        self.shape[axis] = None;
        self
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<_> = self.shape.iter().map(|size| size.map_or("n".into(), |size| size.to_string())).collect();
        write!(f, "{} [{}]", self.element, sizes.join(", "))
    }
}

/// Checks that the graph takes exactly `inputs` and gives at least `outputs`; returns the outputs that are given beside.
pub fn check<'s>(session: &'s Session, inputs: &[Port], outputs: &[Port]) -> Result<Vec<&'s Outlet>, String> {
    find("takes", "input", session.inputs(), inputs)?;
    find("gives", "output", session.outputs(), outputs)?;
    let known = |ports: &[Port], outlet: &Outlet| ports.iter().any(|port| port.name == outlet.name());
    if let Some(unknown) = session.inputs().iter().find(|input| !known(inputs, input)) {
        return Err(format!("has the input '{}', which is not known here", unknown.name()));
    }
    Ok(session.outputs().iter().filter(|output| !known(outputs, output)).collect())
}

fn find(verb: &str, kind: &str, outlets: &[Outlet], ports: &[Port]) -> Result<(), String> {
    for port in ports {
        let Some(outlet) = outlets.iter().find(|outlet| outlet.name() == port.name) else {
            return Err(format!("has no {kind} '{}', which its model folder names", port.name));
        };
        if !fits(outlet.dtype(), port) {
            return Err(format!(
                "{verb} '{}' as {}, but its model folder says {port}; they must be the same",
                port.name,
                describe(outlet.dtype())
            ));
        }
    }
    Ok(())
}

/// A size that the graph leaves open fits any.
fn fits(declared: &ValueType, port: &Port) -> bool {
    let ValueType::Tensor { ty, shape, .. } = declared else { return false };
    *ty == port.element
        && shape.len() == port.shape.len()
        && shape.iter().zip(&port.shape).all(|(declared, size)| match (usize::try_from(*declared), size) {
            (Ok(declared), Some(size)) => declared == *size,
            (Ok(_), None) => false,
            (Err(_), _) => true,
        })
}

fn describe(declared: &ValueType) -> String {
    let ValueType::Tensor { ty, shape, .. } = declared else { return declared.to_string() };
    let sizes: Vec<_> =
        shape.iter().map(|size| usize::try_from(*size).map_or("n".to_owned(), |size| size.to_string())).collect();
    format!("{ty} [{}]", sizes.join(", "))
}

#[cfg(test)]
mod tests {
    use ort::value::{Shape, SymbolicDimensions};

    use super::*;

    fn tensor(element: TensorElementType, shape: &[i64]) -> ValueType {
        let dimension_symbols = SymbolicDimensions::empty(shape.len());
        ValueType::Tensor { ty: element, shape: Shape::new(shape.iter().copied()), dimension_symbols }
    }

    #[test]
    fn types_and_sizes_must_be_the_same_and_open_sizes_fit() {
        let float = TensorElementType::Float32;
        let fixed = Port::new("x", float, &[1, 4]);
        let open = fixed.clone().any_length(1);
        let cases = [
            (tensor(float, &[1, 4]), true, false),
            (tensor(float, &[1, -1]), true, true),
            (tensor(float, &[-1, -1]), true, true),
            (tensor(float, &[1, 5]), false, false),
            (tensor(float, &[1, 4, 1]), false, false),
            (tensor(TensorElementType::Float16, &[1, 4]), false, false),
        ];
        for (declared, fits_fixed, fits_open) in cases {
            assert_eq!((fits(&declared, &fixed), fits(&declared, &open)), (fits_fixed, fits_open), "{declared}");
        }
        assert_eq!(open.to_string(), "f32 [1, n]");
        assert_eq!(describe(&tensor(float, &[1, -1])), "f32 [1, n]");
    }
}
