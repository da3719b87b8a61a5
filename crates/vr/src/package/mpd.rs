//! The DASH manifest (ISO/IEC 23009-1): an adaptation set for each tile, whose place in the frame
//! is a spatial relationship description (SRD, annex H), and a representation for each QP. What pixels
//! mean is said by the properties of ISO/IEC 23091-2, and that the frame is equirectangular by that of
//! OMAF (ISO/IEC 23090-2). Sound has an adaptation set of its own.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, Event};
use weftline_video::rd::RdTable;

use super::plan::Description;
use super::sound::{CODEC, SoundRecord};
use super::track::SoundTrack;
use crate::colour::Colour;

/// The scheme of the spatial relationship description.
const SRD: &str = "urn:mpeg:dash:srd:2014";

/// That of properties of pixels, before their names.
const CICP: &str = "urn:mpeg:mpegB:cicp:";
/// The scheme of the projection, and its names.
const OMAF: [&str; 2] = ["urn:mpeg:mpegI:omaf:2017:pf", "urn:mpeg:mpegI:omaf:2017"];
/// The scheme of the layout of channels, by its number.
const CHANNELS: &str = "urn:mpeg:mpegB:cicp:ChannelConfiguration";

/// The manifest of a package. `codecs` has one name for each QP.
pub(crate) fn manifest(
    plan: &Description,
    table: &RdTable,
    codecs: &[String],
    sound: Option<&SoundRecord>,
) -> String {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    write(plan, table, codecs, sound, &mut writer).expect("writing to memory cannot fail");
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("all parts are text")
}

fn write(
    plan: &Description,
    table: &RdTable,
    codecs: &[String],
    sound: Option<&SoundRecord>,
    writer: &mut Writer<Vec<u8>>,
) -> io::Result<()> {
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let gop_s = plan.gop_duration().as_secs_f64();
    let duration = format!("PT{:.3}S", gop_s * f64::from(plan.gops()));
    writer
        .create_element("MPD")
        .with_attribute(("xmlns", "urn:mpeg:dash:schema:mpd:2011"))
        .with_attribute(("profiles", "urn:mpeg:dash:profile:isoff-live:2011"))
        .with_attribute(("type", "static"))
        .with_attribute(("mediaPresentationDuration", duration.as_str()))
        .with_attribute(("minBufferTime", format!("PT{gop_s:.3}S").as_str()))
        .write_inner_content(|writer| {
            writer
                .create_element("Period")
                .with_attribute(("id", "0"))
                .with_attribute(("start", "PT0S"))
                .write_inner_content(|writer| {
                    (0..plan.grid().tiles())
                        .try_for_each(|tile| write_tile(plan, table, codecs, tile, writer))?;
                    let track = plan.sound().zip(sound);
                    track.map_or(Ok(()), |(track, record)| write_sound(plan, track, record, writer))
                })?;
            // Not essential: a player that does not know it still finds the tiles' places.
            let [scheme, names] = OMAF;
            writer
                .create_element("SupplementalProperty")
                .with_attribute(("schemeIdUri", scheme))
                .with_attribute(("xmlns:omaf", names))
                .with_attribute(("omaf:projection_type", "0"))
                .write_empty()?;
            Ok(())
        })?;
    Ok(())
}

fn write_tile(
    plan: &Description,
    table: &RdTable,
    codecs: &[String],
    tile: usize,
    writer: &mut Writer<Vec<u8>>,
) -> io::Result<()> {
    let (frame, rect) = (plan.frame(), plan.grid().rect(tile, plan.frame()));
    let srd = format!(
        "0,{},{},{},{},{},{}",
        rect.left,
        rect.top,
        rect.width,
        rect.height,
        frame.width(),
        frame.height()
    );
    let (timescale, picture) = plan.timescale();
    let segment = u64::from(picture) * u64::from(plan.gop_frames());
    writer
        .create_element("AdaptationSet")
        .with_attribute(("id", (tile + 1).to_string().as_str()))
        .with_attribute(("contentType", "video"))
        .with_attribute(("mimeType", "video/mp4"))
        .with_attribute(("width", rect.width.to_string().as_str()))
        .with_attribute(("height", rect.height.to_string().as_str()))
        .with_attribute(("frameRate", plan.rate().to_string().as_str()))
        .with_attribute(("sar", "1:1"))
        .with_attribute(("startWithSAP", "1"))
        .with_attribute(("segmentAlignment", "true"))
        .write_inner_content(|writer| {
            writer
                .create_element("SupplementalProperty")
                .with_attribute(("schemeIdUri", SRD))
                .with_attribute(("value", srd.as_str()))
                .write_empty()?;
            write_colour(plan, writer)?;
            writer
                .create_element("SegmentTemplate")
                .with_attribute(("timescale", timescale.to_string().as_str()))
                .with_attribute(("duration", segment.to_string().as_str()))
                .with_attribute(("startNumber", "0"))
                .with_attribute(("initialization", "tiles/$RepresentationID$/init.mp4"))
                .with_attribute(("media", "tiles/$RepresentationID$/$Number%06d$.m4s"))
                .write_empty()?;
            for (&qp, codec) in plan.qps().iter().zip(codecs) {
                let id = Description::rung_dir(tile, qp);
                let id = id.file_name().unwrap_or_default().to_string_lossy();
                writer
                    .create_element("Representation")
                    .with_attribute(("id", &*id))
                    .with_attribute(("codecs", codec.as_str()))
                    .with_attribute(("bandwidth", bandwidth(plan, table, tile, qp).as_str()))
                    .write_empty()?;
            }
            Ok(())
        })?;
    Ok(())
}

/// What the pixels mean, if the source says it.
fn write_colour(plan: &Description, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
    for (name, code) in plan.colour.into_iter().flat_map(Colour::properties) {
        writer
            .create_element("SupplementalProperty")
            .with_attribute(("schemeIdUri", format!("{CICP}{name}").as_str()))
            .with_attribute(("value", code.to_string().as_str()))
            .write_empty()?;
    }
    Ok(())
}

/// The adaptation set of the sound, after those of the tiles.
fn write_sound(
    plan: &Description,
    track: SoundTrack,
    record: &SoundRecord,
    writer: &mut Writer<Vec<u8>>,
) -> io::Result<()> {
    let (timescale, picture) = plan.timescale();
    let segment = u64::from(picture) * u64::from(plan.gop_frames());
    let rate = (record.longest() * 8) as f64 / plan.gop_duration().as_secs_f64();
    let id = plan.grid().tiles() + 1;
    writer
        .create_element("AdaptationSet")
        .with_attribute(("id", id.to_string().as_str()))
        .with_attribute(("contentType", "audio"))
        .with_attribute(("mimeType", "audio/mp4"))
        .with_attribute(("audioSamplingRate", track.rate_hz.to_string().as_str()))
        .with_attribute(("startWithSAP", "1"))
        .with_attribute(("segmentAlignment", "true"))
        .write_inner_content(|writer| {
            writer
                .create_element("AudioChannelConfiguration")
                .with_attribute(("schemeIdUri", CHANNELS))
                .with_attribute(("value", track.channels.to_string().as_str()))
                .write_empty()?;
            writer
                .create_element("SegmentTemplate")
                .with_attribute(("timescale", timescale.to_string().as_str()))
                .with_attribute(("duration", segment.to_string().as_str()))
                .with_attribute(("startNumber", "0"))
                .with_attribute(("initialization", "$RepresentationID$/init.mp4"))
                .with_attribute(("media", "$RepresentationID$/$Number%06d$.m4s"))
                .write_empty()?;
            writer
                .create_element("Representation")
                .with_attribute(("id", "sound"))
                .with_attribute(("codecs", CODEC))
                .with_attribute(("bandwidth", (rate.ceil() as u64).to_string().as_str()))
                .write_empty()?;
            Ok(())
        })?;
    Ok(())
}

/// The rate in bit/s that carries each of its segments within its own duration, as a buffer of one
/// GoP wants it.
fn bandwidth(plan: &Description, table: &RdTable, tile: usize, qp: u8) -> String {
    let rungs = table.gops().iter().filter_map(|gop| gop.tiles().get(tile)?.at_qp(qp));
    let most = rungs.map(|rung| rung.bytes.as_u64()).max().unwrap_or(0);
    let rate = (most * 8) as f64 / plan.gop_duration().as_secs_f64();
    (rate.ceil() as u64).max(1).to_string()
}
