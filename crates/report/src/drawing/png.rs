//! SVG to PNG with a font that comes along: the same picture on every machine, also where no fonts are installed.

use resvg::{tiny_skia, usvg};
use std::sync::{Arc, OnceLock};

/// Pixels per unit of the SVG: sharp on dense screens and in print.
const SCALE: f32 = 2.0;

/// Why a picture could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    /// The SVG is not well formed.
    #[error("the picture cannot be read")]
    Parse(#[from] usvg::Error),
    /// The picture has no size, or one that does not fit in memory.
    #[error("the picture has a size that cannot be drawn")]
    Size,
    /// The pixels cannot be written as PNG.
    #[error("the picture cannot be encoded: {0}")]
    Encode(String),
}

/// The fonts of the pictures. Fonts of the system are not looked at, so that nothing depends on them.
fn fonts() -> Arc<usvg::fontdb::Database> {
    static FONTS: OnceLock<Arc<usvg::fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(dejavu::sans::regular())));
        fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(dejavu::sans::bold())));
        fonts.set_sans_serif_family("DejaVu Sans");
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}

/// Draws an SVG.
pub(crate) fn png(svg: &str) -> Result<Vec<u8>, DrawError> {
    let options = usvg::Options { fontdb: fonts(), font_family: "DejaVu Sans".to_owned(), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options)?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or(DrawError::Size)?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or(DrawError::Size)?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| DrawError::Encode(error.to_string()))
}
