//! What is found once for each shape of the jobs that a decision looks at.
//!
//! A live queue comes to know ever more shapes, and most of them have no job any more. A decision must not look at those.

use rota_core::ShapeId;

/// A value for each shape that was asked for.
#[derive(Clone)]
pub struct PerShape<T> {
    found: Vec<Option<T>>,
    /// Shapes with a value.
    shapes: Vec<ShapeId>,
}

impl<T> Default for PerShape<T> {
    fn default() -> Self {
        Self { found: Vec::new(), shapes: Vec::new() }
    }
}

impl<T: Copy> PerShape<T> {
    /// The value of a shape. It is found when it is asked for first.
    pub fn get(&mut self, shape: ShapeId, find: impl FnOnce() -> T) -> T {
        if self.found.len() <= shape.index() {
            self.found.resize(shape.index() + 1, None);
        }
        let found = &mut self.found[shape.index()];
        if found.is_none() {
            self.shapes.push(shape);
        }
        *found.get_or_insert_with(find)
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        for shape in self.shapes.drain(..) {
            self.found[shape.index()] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_once_until_all_are_forgotten() {
        let mut values = PerShape::default();
        let mut calls = 0;
        let mut get = |values: &mut PerShape<u32>, shape: u32, value: u32| {
            values.get(ShapeId(shape), || {
                calls += 1;
                value
            })
        };
        assert_eq!([get(&mut values, 7, 1), get(&mut values, 7, 2), get(&mut values, 0, 3)], [1, 1, 3]);
        values.clear();
        assert_eq!(get(&mut values, 7, 4), 4);
        assert_eq!((calls, values.shapes), (3, vec![ShapeId(7)]));
    }
}
