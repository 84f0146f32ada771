//! Builds the page into the program: every file that `make web` made, packed where that is worth it. Without them there is a page that
//! says how to make them, so that the program can be built without Node.

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const NOT_BUILT: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Rota</title>\n<h1>Rota</h1>\n\
<p>The queue runs, but its dashboard was not built into this program: run <code>make web</code>, then <code>make build</code>, and start it again.</p>\n\
<p>The API is described at <a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a>.</p>\n</html>\n";

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dist = root.join("web/dist");
    // A folder that is not there would be looked for again at every build. Where it cannot be made, that is how it is.
    _ = std::fs::create_dir_all(&dist);
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        collect(&dist, &dist, &mut files)?;
        files.sort();
    } else {
        files.push(("index.html".to_owned(), NOT_BUILT.as_bytes().to_vec()));
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let mut table = "static FILES: &[File] = &[\n".to_owned();
    for (number, (path, content)) in files.iter().enumerate() {
        let packed = packed(content)?;
        let is_packed = packed.len() < content.len();
        let name = format!("page-{number}");
        std::fs::write(out.join(&name), if is_packed { &packed } else { content })?;
        let tag = Sha256::digest(content).iter().take(16).fold(String::new(), |mut text, byte| {
            _ = write!(text, "{byte:02x}");
            text
        });
        let tag = format!("\"{tag}\"");
        let (kind, is_lasting) = (kind(path), path.starts_with("assets/"));
        _ = writeln!(
            table,
            "File {{ path: {path:?}, kind: {kind:?}, tag: {tag:?}, bytes: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\")), \
             is_packed: {is_packed}, is_lasting: {is_lasting} }},"
        );
    }
    table.push_str("];\n");
    std::fs::write(out.join("page.rs"), table)
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            files.push((name.to_owned(), std::fs::read(&path)?));
        }
    }
    Ok(())
}

fn packed(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
