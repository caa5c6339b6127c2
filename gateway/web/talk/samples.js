// Samples between floats from -1 to 1 and the text that events carry them in.

const BLOCK = 0x8000;

function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += BLOCK) text += String.fromCharCode(...bytes.subarray(at, at + BLOCK));
  return btoa(text);
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// Floats as base64 of little-endian `pcm16` or `pcm_f32le`.
export function encodeSamples(samples, encoding) {
  const width = encoding === "pcm_f32le" ? 4 : 2;
  const view = new DataView(new ArrayBuffer(samples.length * width));
  for (let at = 0; at < samples.length; at += 1) {
    const value = Math.max(-1, Math.min(1, samples[at]));
    if (width === 4) view.setFloat32(at * 4, value, true);
    else view.setInt16(at * 2, Math.round(value * 32_767), true);
  }
  return base64(new Uint8Array(view.buffer));
}

// Floats from base64 of `pcm16`; half a sample at the end is left out.
export function decodePcm16(text) {
  const bytes = bytesOf(text);
  const view = new DataView(bytes.buffer);
  const samples = new Float32Array(bytes.length >> 1);
  for (let at = 0; at < samples.length; at += 1) samples[at] = view.getInt16(at * 2, true) / 32_768;
  return samples;
}

// The loudest sample, 0 to 1.
export function peakOf(samples) {
  let peak = 0;
  for (const sample of samples) peak = Math.max(peak, Math.abs(sample));
  return peak;
}
