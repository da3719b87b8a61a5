//! The DASH manifest (ISO/IEC 23009-1): an adaptation set for each tile, whose place in the frame
//! is a spatial relationship description (SRD, annex H), and a representation for each QP. What pixels
//! mean is said by the properties of ISO/IEC 23091-2, and that the frame is equirectangular by that of
//! OMAF (ISO/IEC 23090-2). Sound has an adaptation set of its own.
//!
//! If the whole sphere was encoded, too, it is the main set. Places of tiles are essential then: players that
//! know nothing of them have to leave tiles out (ISO/IEC 23009-1, 5.8.4.8), and show the sphere.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, Event};
use weftline_video::rd::RdTable;

use super::layer::Layer;
use super::plan::Description;
use super::sound::{CODEC, SoundRecord};
use super::track::SoundTrack;
use crate::colour::Colour;

/// The scheme of the spatial relationship description.
const SRD: &str = "urn:mpeg:dash:srd:2014";

/// The scheme of roles.
const ROLE: &str = "urn:mpeg:dash:role:2011";
/// That of properties of pixels, before their names.
const CICP: &str = "urn:mpeg:mpegB:cicp:";
/// The scheme of the projection, and its names.
const OMAF: [&str; 2] = ["urn:mpeg:mpegI:omaf:2017:pf", "urn:mpeg:mpegI:omaf:2017"];
/// The scheme of the layout of channels, by its number.
const CHANNELS: &str = "urn:mpeg:mpegB:cicp:ChannelConfiguration";

/// What a manifest tells of.
pub(crate) struct Contents<'a> {
    pub(crate) plan: &'a Description,
    pub(crate) table: &'a RdTable,
    /// One name for each QP.
    pub(crate) codecs: Vec<String>,
    /// As what the whole sphere was encoded, if it was.
    pub(crate) whole: Option<Description>,
    /// Of each of its QPs.
    pub(crate) whole_codecs: Vec<String>,
    /// The same: the longest segment, bytes.
    pub(crate) whole_longest: Vec<u64>,
    pub(crate) sound: Option<(SoundTrack, SoundRecord)>,
}

/// The manifest of a package.
pub(crate) fn manifest(contents: &Contents<'_>) -> String {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    write(contents, &mut writer).expect("writing to memory cannot fail");
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("all parts are text")
}

fn write(contents: &Contents<'_>, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
    let plan = contents.plan;
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let gop_s = plan.gop_duration().as_secs_f64();
    let length_ms = length_ms(plan);
    let duration = format!("PT{}.{:03}S", length_ms / 1_000, length_ms % 1_000);
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
                .write_inner_content(|writer| write_sets(contents, writer))?;
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

/// How long it plays in ms, rounded down: players ask for every segment that begins before the end, and one
/// more than there is would be missing to them.
fn length_ms(plan: &Description) -> u128 {
    let pictures = u128::from(plan.gop_frames()) * u128::from(plan.gops());
    pictures * u128::from(plan.rate().denominator()) * 1_000 / u128::from(plan.rate().numerator())
}

/// All adaptation sets: the whole sphere first, as some players take the first of video.
fn write_sets(contents: &Contents<'_>, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
    let Contents { plan, table, codecs, whole, whole_codecs, whole_longest, sound } = contents;
    // Numbers of sets are the same with it and without.
    let tiles = plan.grid().tiles();
    if let Some(whole) = whole {
        let rungs = whole.qps().iter().zip(whole_codecs).zip(whole_longest);
        let rung = |((qp, codec), longest): ((&u8, &String), &u64)| (*qp, codec.clone(), *longest);
        let rungs = rungs.map(rung).collect();
        let set =
            VideoSet { layer: Layer::Whole, id: tiles + 2, tile: 0, rungs, is_essential: false };
        set.write(whole, writer)?;
    }
    for tile in 0..tiles {
        let longest = |qp| {
            let rungs = table.gops().iter().filter_map(|gop| gop.tiles().get(tile)?.at_qp(qp));
            rungs.map(|rung| rung.bytes.as_u64()).max().unwrap_or(0)
        };
        let rungs = plan.qps().iter().zip(codecs);
        let rungs = rungs.map(|(&qp, codec)| (qp, codec.clone(), longest(qp))).collect();
        let is_essential = whole.is_some();
        let set = VideoSet { layer: Layer::Tiles, id: tile + 1, tile, rungs, is_essential };
        set.write(plan, writer)?;
    }
    sound.as_ref().map_or(Ok(()), |(track, record)| write_sound(plan, *track, record, writer))
}

/// The adaptation set of a tile, or of the whole sphere.
struct VideoSet {
    layer: Layer,
    id: usize,
    tile: usize,
    /// QPs, the names of their codecs, and their longest segments in bytes.
    rungs: Vec<(u8, String, u64)>,
    /// Whether players that do not know what a part of a picture is are to leave it out.
    is_essential: bool,
}

impl VideoSet {
    fn write(&self, plan: &Description, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let rect = plan.grid().rect(self.tile, plan.frame());
        writer
            .create_element("AdaptationSet")
            .with_attribute(("id", self.id.to_string().as_str()))
            .with_attribute(("contentType", "video"))
            .with_attribute(("mimeType", "video/mp4"))
            .with_attribute(("width", rect.width.to_string().as_str()))
            .with_attribute(("height", rect.height.to_string().as_str()))
            .with_attribute(("frameRate", plan.rate().to_string().as_str()))
            .with_attribute(("sar", "1:1"))
            .with_attribute(("startWithSAP", "1"))
            .with_attribute(("segmentAlignment", "true"))
            .write_inner_content(|writer| {
                self.write_place(plan, writer)?;
                write_colour(plan, writer)?;
                if self.layer == Layer::Whole {
                    writer
                        .create_element("Role")
                        .with_attribute(("schemeIdUri", ROLE))
                        .with_attribute(("value", "main"))
                        .write_empty()?;
                }
                self.write_rungs(plan, writer)
            })?;
        Ok(())
    }

    /// Where in the frame it is.
    fn write_place(&self, plan: &Description, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let (frame, rect) = (plan.frame(), plan.grid().rect(self.tile, plan.frame()));
        let srd = format!(
            "0,{},{},{},{},{},{}",
            rect.left,
            rect.top,
            rect.width,
            rect.height,
            frame.width(),
            frame.height()
        );
        let name = if self.is_essential { "EssentialProperty" } else { "SupplementalProperty" };
        writer
            .create_element(name)
            .with_attribute(("schemeIdUri", SRD))
            .with_attribute(("value", srd.as_str()))
            .write_empty()?;
        Ok(())
    }

    fn write_rungs(&self, plan: &Description, writer: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let (timescale, picture) = plan.timescale();
        let segment = u64::from(picture) * u64::from(plan.gop_frames());
        let folder = match self.layer {
            Layer::Tiles => "tiles",
            Layer::Whole => "whole",
        };
        let initialization = format!("{folder}/$RepresentationID$/init.mp4");
        let media = format!("{folder}/$RepresentationID$/$Number%06d$.m4s");
        writer
            .create_element("SegmentTemplate")
            .with_attribute(("timescale", timescale.to_string().as_str()))
            .with_attribute(("duration", segment.to_string().as_str()))
            .with_attribute(("startNumber", "0"))
            .with_attribute(("initialization", initialization.as_str()))
            .with_attribute(("media", media.as_str()))
            .write_empty()?;
        for (qp, codec, longest) in &self.rungs {
            let id = self.layer.rung_dir(self.tile, *qp);
            let id = id.file_name().unwrap_or_default().to_string_lossy();
            writer
                .create_element("Representation")
                .with_attribute(("id", &*id))
                .with_attribute(("codecs", codec.as_str()))
                .with_attribute(("bandwidth", bandwidth(plan, *longest).as_str()))
                .write_empty()?;
        }
        Ok(())
    }
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

/// The rate in bit/s that carries segments of at most so many bytes within their own duration each, as a
/// buffer of one GoP wants it.
fn bandwidth(plan: &Description, longest: u64) -> String {
    let rate = (longest * 8) as f64 / plan.gop_duration().as_secs_f64();
    (rate.ceil() as u64).max(1).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use weftline_core::ByteCount;
    use weftline_video::rd::{GopTable, Rung, TileTable};

    use super::*;

    /// Two tiles in two GoPs of half a second, which take 100 bytes and more.
    fn contents(plan: &Description) -> (RdTable, Vec<String>) {
        let rung =
            |bytes| Rung { qp: 30, bytes: ByteCount::new(bytes), ws_mse: 1.0, mixed_mse: None };
        let tile = |bytes| TileTable::new(vec![rung(bytes)]).unwrap();
        let gop = |first, second| GopTable::new(vec![tile(first), tile(second)]).unwrap();
        let gops = vec![gop(100, 300), gop(200, 250)];
        let table = RdTable::new(2, 1, plan.gop_duration(), gops).unwrap();
        (table, vec!["avc1.42C00A".to_owned()])
    }

    fn plan_of(whole: &str) -> Description {
        let about = r#"{"format":"weftline-vr-1","source":"a.y4m","source_bytes":1,"source_digest":"",
            "width":64,"height":32,"columns":2,"rows":1,"qps":[30],"fps_numerator":8,
            "fps_denominator":1,"gop_frames":4,"gops":2,"preset":"medium","ffmpeg":"5",WHOLE
            "complete":true}"#;
        serde_json::from_str(&about.replace("WHOLE", whole)).unwrap()
    }

    fn manifest_of(plan: &Description) -> String {
        let (table, codecs) = contents(plan);
        manifest(&Contents {
            plan,
            table: &table,
            codecs,
            whole: plan.whole_plan(),
            whole_codecs: ["avc1.42C00B", "avc1.42C00A"].map(str::to_owned).to_vec(),
            whole_longest: vec![900, 400],
            sound: None,
        })
    }

    /// The whole sphere is a set of the size of the frame, and the places of tiles become essential; all else
    /// stays to the byte.
    #[test]
    fn the_whole_sphere_is_the_main_set() {
        let colour = r#"{"primaries":1,"transfer":1,"matrix":1,"full_range":false}"#;
        let whole =
            manifest_of(&plan_of(&format!(r#""whole":{{"qps":[28,36],"colour":{colour}}},"#)));
        let set = r#"    <AdaptationSet id="4" contentType="video" mimeType="video/mp4" width="64" height="32" frameRate="8/1" sar="1:1" startWithSAP="1" segmentAlignment="true">
      <SupplementalProperty schemeIdUri="urn:mpeg:dash:srd:2014" value="0,0,0,64,32,64,32"/>
      <SupplementalProperty schemeIdUri="urn:mpeg:mpegB:cicp:ColourPrimaries" value="1"/>
      <SupplementalProperty schemeIdUri="urn:mpeg:mpegB:cicp:TransferCharacteristics" value="1"/>
      <SupplementalProperty schemeIdUri="urn:mpeg:mpegB:cicp:MatrixCoefficients" value="1"/>
      <SupplementalProperty schemeIdUri="urn:mpeg:mpegB:cicp:VideoFullRangeFlag" value="0"/>
      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="main"/>
      <SegmentTemplate timescale="10000" duration="5000" startNumber="0" initialization="whole/$RepresentationID$/init.mp4" media="whole/$RepresentationID$/$Number%06d$.m4s"/>
      <Representation id="q28" codecs="avc1.42C00B" bandwidth="14400"/>
      <Representation id="q36" codecs="avc1.42C00A" bandwidth="6400"/>
    </AdaptationSet>
"#;
        let tiles = manifest_of(&plan_of(""));
        assert_eq!(
            tiles.matches("<SupplementalProperty schemeIdUri=\"urn:mpeg:dash:srd:2014\"").count(),
            2
        );
        assert!(tiles.contains("value=\"0,32,0,32,32,64,32\""), "{tiles}");
        let (head, rest) = tiles.split_at(tiles.find("    <AdaptationSet").unwrap());
        let place = "Property schemeIdUri=\"urn:mpeg:dash:srd:2014\"";
        let rest = rest.replace(&format!("Supplemental{place}"), &format!("Essential{place}"));
        assert_eq!(whole, [head, set, &rest].concat());
    }
    /// Players ask for as many segments as begin before the length that is said: one more is not there.
    #[test]
    fn the_length_is_not_beyond_the_last_segment() {
        for (numerator, denominator, gop_frames, gops, length) in [
            (8, 1, 4, 2, "PT1.000S"),
            (15, 1, 8, 5, "PT2.666S"),
            (30, 1, 8, 7, "PT1.866S"),
            (30_000, 1_001, 45, 1, "PT1.501S"),
            (10, 1, 10, u32::MAX, "PT4294967295.000S"),
        ] {
            let plan = Description {
                fps_numerator: numerator,
                fps_denominator: denominator,
                gop_frames,
                gops,
                ..plan_of("")
            };
            let said = format!(" mediaPresentationDuration=\"{length}\"");
            let manifest = manifest_of(&plan);
            assert!(manifest.contains(&said), "{said}: {manifest}");
        }
    }
}
