//! The fields that an expression reads of its object. Only these are passed to the interpreter, which has its own
//! values.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

/// The fields of the object that an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rules) struct Reads {
    /// The object's name in the expression.
    pub(super) variable: &'static str,
    fields: BTreeSet<String>,
    /// The object itself is passed to something.
    whole: bool,
}

impl Reads {
    pub(super) fn of(variable: &'static str) -> Self {
        Self {
            variable,
            fields: BTreeSet::new(),
            whole: false,
        }
    }

    /// Whether the expression may read this field of the object.
    pub(super) fn field(&self, name: &str) -> bool {
        self.whole || self.fields.contains(name)
    }

    /// The object is used without a field.
    pub(super) fn object(&mut self) {
        self.whole = true;
    }

    /// Notes `object.field`, `object.?field`, `object["field"]` and `object[?"field"]`; true when the expression is one
    /// of them. A loop variable with the name `object` only adds unused fields.
    pub(super) fn note(&mut self, expression: &Expr) -> bool {
        let field = match expression {
            Expr::Select(select) if self.is_object(&select.operand) => Some(select.field.as_str()),
            Expr::Call(call) => self.called(call),
            _ => None,
        };
        let noted = field.map(str::to_owned);
        let is_one = noted.is_some();
        self.fields.extend(noted);
        is_one
    }

    fn called<'e>(&self, call: &'e CallExpr) -> Option<&'e str> {
        let selects = [
            operators::INDEX,
            operators::OPT_INDEX,
            operators::OPT_SELECT,
        ];
        if call.target.is_some() || !selects.contains(&call.func_name.as_str()) {
            return None;
        }
        match &call.args[..] {
            [object, key] if self.is_object(object) => match &key.expr {
                Expr::Literal(LiteralValue::String(name)) => Some(name.inner()),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_object(&self, expression: &IdedExpr) -> bool {
        matches!(&expression.expr, Expr::Ident(name) if name == self.variable)
    }
}
