//! The temperature field as a PNG: black is cold, white is hot, red and yellow lie between.

use std::fs::File;
use std::io::BufWriter;

use crate::plate::Plate;

pub fn write(path: &str, plate: &Plate, width: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), width as u32, width as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> = plate.cells.iter().flat_map(|&temperature| color(temperature)).collect();
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(())
}

/// Each third of the scale fills one channel.
fn color(temperature: f64) -> [u8; 3] {
    [0.0, 1.0, 2.0].map(|third| ((temperature.clamp(0.0, 1.0) * 3.0 - third).clamp(0.0, 1.0) * 255.0) as u8)
}
