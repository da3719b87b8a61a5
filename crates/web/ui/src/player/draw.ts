// Draws the view of the sphere: one triangle over the canvas, and for each pixel the ray back to the frame,
// as the Rust renderer has it (crates/video/src/metric).

import type { Eye } from "./geometry.js";
import { type Colour, GREY, type Picture, planes, type Planes, THERE, type TileState } from "./talk.js";
import type { Manifest } from "./wire.js";

const VERTICES = `#version 300 es
void main() {
  vec2 at = vec2((gl_VertexID << 1) & 2, gl_VertexID & 2);
  gl_Position = vec4(at * 2.0 - 1.0, 0.0, 1.0);
}`;

const PIXELS = `#version 300 es
precision highp float;
uniform sampler2D luma, cb, cr, states;
uniform mat3 head, matrix;
uniform vec3 offset;
uniform vec4 port;
uniform vec2 halves, centre;
uniform float marks, grey;
out vec4 colour;
const float PI = 3.14159265358979;
void main() {
  vec2 at = ((gl_FragCoord.xy - port.xy) / port.zw * 2.0 - 1.0 + centre) * halves;
  vec3 ray = normalize(head * vec3(1.0, -at.x, at.y));
  // Straight behind it is zero, and what some machines make of that is ahead.
  float side = ray.y == 0.0 ? 1e-7 : -ray.y;
  vec2 place = vec2(atan(side, ray.x) / (2.0 * PI) + 0.5, 0.5 - asin(clamp(ray.z, -1.0, 1.0)) / PI);
  vec3 coded = vec3(texture(luma, place).r, texture(cb, place).r, texture(cr, place).r);
  vec3 seen = grey > 0.0 ? coded.rrr : clamp(matrix * (coded - offset), 0.0, 1.0);
  if (marks > 0.0) {
    ivec2 tiles = textureSize(states, 0);
    vec2 within = place * vec2(tiles);
    vec4 state = texelFetch(states, min(ivec2(within), tiles - 1), 0);
    // What is late has stripes besides its colour.
    float stripe = step(0.5, fract((within.x + within.y) * 8.0));
    float share = state.a * (state.b > 0.9 ? 0.35 + 0.4 * stripe : 1.0);
    // From green over yellow to magenta.
    vec3 rank = vec3(min(vec2(1.0), 2.0 * state.rg), max(0.0, 1.6 * state.r - 0.8));
    seen = mix(seen, state.b > 0.9 ? vec3(0.75, 0.1, 0.1) : rank, share);
    // Lines of one pixel or two between tiles.
    vec2 near = abs(fract(within + 0.5) - 0.5) / max(fwidth(within), vec2(1e-6));
    if (min(near.x, near.y) < 0.8) seen = mix(seen, vec3(1.0), 0.6);
  }
  colour = vec4(seen, 1.0);
}`;

type Uniform = "head" | "matrix" | "offset" | "port" | "halves" | "centre" | "marks" | "grey";

export class Screen {
  readonly gl: WebGL2RenderingContext;
  private uniforms = {} as Record<Uniform, WebGLUniformLocation | null>;
  private textures: WebGLTexture[] = [];
  private manifest: Manifest | null = null;
  private planes: Planes = planes(2, 2);
  /** Places that are grey already. */
  private grey: boolean[] = [];
  private colour: Colour = { matrix: "bt709", full: false };
  private states: TileState[] = [];
  /** The context is lost, and comes back by itself. */
  lost = false;

  constructor(canvas: HTMLCanvasElement) {
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: false });
    if (!gl) throw new Error("WebGL 2 is not to be had");
    this.gl = gl;
    this.prepare();
    canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      this.lost = true;
    });
    canvas.addEventListener("webglcontextrestored", () => {
      this.lost = false;
      this.prepare();
      if (this.manifest) this.start(this.manifest);
      this.mark(this.states);
    });
  }

  private prepare(): void {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [kind, text] of [
      [gl.VERTEX_SHADER, VERTICES],
      [gl.FRAGMENT_SHADER, PIXELS],
    ] as const) {
      const shader = gl.createShader(kind);
      if (!shader) continue;
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.isContextLost() && !gl.getProgramParameter(program, gl.LINK_STATUS)) {
      throw new Error(`the shader: ${gl.getProgramInfoLog(program)}`);
    }
    gl.useProgram(program);
    for (const [unit, name] of ["luma", "cb", "cr", "states"].entries()) {
      gl.uniform1i(gl.getUniformLocation(program, name), unit);
    }
    for (const name of ["head", "matrix", "offset", "port", "halves", "centre", "marks", "grey"] as const) {
      this.uniforms[name] = gl.getUniformLocation(program, name);
    }
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    this.textures = [];
    this.paintColours();
  }

  /** Makes room for a stream's pictures, all grey. */
  start(manifest: Manifest): void {
    const { gl } = this;
    const { width, height, columns, rows } = manifest;
    this.manifest = manifest;
    // It begins when the context comes back.
    if (this.lost || gl.isContextLost()) return;
    const most = gl.getParameter(gl.MAX_TEXTURE_SIZE) as number;
    if (Math.max(width, height) > most) {
      this.manifest = null;
      throw new Error(`pictures of ${width}x${height} are larger than this machine can draw (${most}x${most})`);
    }
    this.planes = planes(width, height);
    for (const texture of this.textures) gl.deleteTexture(texture);
    const sizes = [[width, height], [width / 2, height / 2], [width / 2, height / 2], [columns, rows]];
    this.textures = sizes.map(([wide, high], unit) => {
      const texture = gl.createTexture();
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_2D, texture);
      const states = unit === 3;
      gl.texStorage2D(gl.TEXTURE_2D, 1, states ? gl.RGBA8 : gl.R8, wide, high);
      const filter = states ? gl.NEAREST : gl.LINEAR;
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, filter);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, filter);
      // The frame goes on where it ends at the left and right, and nowhere else.
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, states ? gl.CLAMP_TO_EDGE : gl.REPEAT);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
      return texture;
    });
    this.grey = new Array(columns * rows).fill(false);
    for (let tile = 0; tile < columns * rows; tile++) this.paintGrey(tile);
  }

  /** Where a tile is, in pixels. */
  private rect(tile: number): [left: number, top: number, wide: number, high: number] {
    const { width, height, columns, rows } = this.manifest as Manifest;
    const [wide, high] = [width / columns, height / rows];
    return [(tile % columns) * wide, Math.floor(tile / columns) * high, wide, high];
  }

  /** Puts a picture's tiles in their places, all in one task. */
  upload({ buffer, tiles }: Picture): void {
    if (!this.manifest || this.lost) return;
    const { gl } = this;
    const { width, height } = this.planes;
    if (buffer.byteLength > 0 && tiles.every((state) => state === THERE)) {
      this.put(buffer, 0, 0, width, height);
      this.grey.fill(false);
      return;
    }
    for (const [tile, state] of tiles.entries()) {
      if (state === GREY && !this.grey[tile]) this.paintGrey(tile);
      if (state === THERE) {
        this.put(buffer, ...this.rect(tile));
        this.grey[tile] = false;
      }
    }
    gl.pixelStorei(gl.UNPACK_ROW_LENGTH, 0);
  }

  /** Puts a part of a picture in its place. */
  private put(buffer: ArrayBuffer, left: number, top: number, wide: number, high: number): void {
    const { gl } = this;
    const { width, cb, cr } = this.planes;
    for (const [unit, start] of [0, cb, cr].entries()) {
      const by = unit === 0 ? 1 : 2;
      const stride = width / by;
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.pixelStorei(gl.UNPACK_ROW_LENGTH, stride);
      const from = new Uint8Array(buffer, start + (top / by) * stride + left / by);
      gl.texSubImage2D(
        gl.TEXTURE_2D, 0, left / by, top / by, wide / by, high / by, gl.RED, gl.UNSIGNED_BYTE, from,
      );
    }
    gl.pixelStorei(gl.UNPACK_ROW_LENGTH, 0);
  }

  private paintGrey(tile: number): void {
    const { gl } = this;
    const [left, top, wide, high] = this.rect(tile);
    const grey = new Uint8Array(wide * high).fill(128);
    for (const [unit, by] of [1, 2, 2].entries()) {
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.texSubImage2D(
        gl.TEXTURE_2D, 0, left / by, top / by, wide / by, high / by, gl.RED, gl.UNSIGNED_BYTE, grey,
      );
    }
    this.grey[tile] = true;
  }

  /** How colours are coded from now on. */
  code(colour: Colour): void {
    this.colour = colour;
    this.paintColours();
  }

  /** From coded luma and chroma to red, green and blue (ITU-T H.273 §8.3). */
  private paintColours(): void {
    const { gl } = this;
    const { matrix: name, full } = this.colour;
    const [kr, kb] = name === "bt709" ? [0.2126, 0.0722] : name.startsWith("bt2020") ? [0.2627, 0.0593] : [0.299, 0.114];
    const kg = 1 - kr - kb;
    const [luma, chroma] = full ? [1, 1] : [255 / 219, 255 / 224];
    const [r, b] = [2 * (1 - kr) * chroma, 2 * (1 - kb) * chroma];
    // Column by column.
    const columns = [luma, luma, luma, 0, (-b * kb) / kg, b, r, (-r * kr) / kg, 0];
    gl.uniformMatrix3fv(this.uniforms.matrix, false, columns);
    gl.uniform3f(this.uniforms.offset, full ? 0 : 16 / 255, 128 / 255, 128 / 255);
  }

  /** What is shown of each tile. */
  mark(states: TileState[]): void {
    this.states = states;
    const { gl, manifest } = this;
    if (!manifest || this.lost || states.length !== manifest.columns * manifest.rows) return;
    const texels = new Uint8Array(4 * states.length);
    for (const [tile, { qp, late }] of states.entries()) {
      const rank = qp === null ? -1 : manifest.qps.indexOf(qp);
      // What was left out is not marked.
      const coarse = manifest.qps.length > 1 ? rank / (manifest.qps.length - 1) : 0;
      texels.set([255 * coarse, 255 * (1 - coarse), late ? 255 : 0, late ? 255 : rank < 0 ? 0 : 70], 4 * tile);
    }
    gl.activeTexture(gl.TEXTURE3);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, manifest.columns, manifest.rows, gl.RGBA, gl.UNSIGNED_BYTE, texels);
  }

  /** Draws what is there, as seen by each eye, into `into`, or else the canvas; its luma as it is coded, if that
   * alone is wanted. */
  draw(eyes: Eye[], marks: boolean, into: WebGLFramebuffer | null = null, lumaAlone = false): void {
    const { gl, uniforms } = this;
    if (this.lost || !this.manifest) return;
    gl.bindFramebuffer(gl.FRAMEBUFFER, into);
    gl.uniform1f(uniforms.marks, marks ? 1 : 0);
    gl.uniform1f(uniforms.grey, lumaAlone ? 1 : 0);
    for (const { head, halves, centre, port } of eyes) {
      gl.viewport(...port);
      gl.uniform4f(uniforms.port, ...port);
      gl.uniform2f(uniforms.halves, ...halves);
      gl.uniform2f(uniforms.centre, ...centre);
      // Ours is row by row.
      gl.uniformMatrix3fv(uniforms.head, true, head);
      gl.drawArrays(gl.TRIANGLES, 0, 3);
    }
  }
}
