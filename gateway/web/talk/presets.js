// The session that each model wants to be opened with, and the voices it is known to have.

const SILENCE_MS = 500;

// Fits models that nothing is known of: they find the end of a turn, and what interrupts is for them to say.
const ANY = {
  input: { encoding: "pcm16", rateHz: 16_000 },
  outputRateHz: 24_000,
  chunkMs: 80,
  voices: [],
  needsReference: false,
  session: { turn_detection: { type: "server_vad", silence_duration_ms: SILENCE_MS } },
};

const PRESETS = {
  cascade: { ...ANY, session: { ...ANY.session, overlap_policy: "barge_in_on_speech" } },
  echo: { ...ANY, session: { turn_detection: null } },
  scripted: { ...ANY, session: { turn_detection: null } },
  "openbmb/MiniCPM-o-4_5": {
    ...ANY,
    chunkMs: 100,
    needsReference: true,
    session: {
      turn_detection: null,
      overlap_policy: "listen_only",
      extra_body: { native_duplex: true, force_listen_count: 0 },
    },
  },
  "nvidia/personaplex-7b-v1": {
    ...ANY,
    input: { encoding: "pcm_f32le", rateHz: 24_000 },
    voices: ["NAT", "VAR"].flatMap((kind) => ["F", "M"].flatMap((sex) => namesOf(kind, sex))),
    session: { turn_detection: null },
  },
  "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B": {
    ...ANY,
    input: { encoding: "pcm_f32le", rateHz: 16_000 },
    outputRateHz: 22_050,
    session: { turn_detection: null },
  },
};

function namesOf(kind, sex) {
  const count = kind === "NAT" ? 4 : 5;
  return Array.from({ length: count }, (_, number) => `${kind}${sex}${number}.pt`);
}

// How to talk to `model`: `{input: {encoding, rateHz}, outputRateHz, chunkMs, voices, needsReference, session}`.
export function presetOf(model) {
  return PRESETS[model] ?? ANY;
}

// The `session` object of an opening `session.update`. Empty `voice` and `instructions` are left to the model.
export function sessionConfig(model, { voice = "", instructions = "", reference = null, textOnly = false } = {}) {
  const preset = presetOf(model);
  const { extra_body: extra = {}, ...session } = preset.session;
  return {
    ...(model ? { model } : {}),
    modalities: textOnly ? ["text"] : ["audio", "text"],
    input_audio_format: preset.input.encoding,
    output_audio_format: "pcm16",
    sample_rate_hz: preset.input.rateHz,
    audio: { input: { sample_rate_hz: preset.input.rateHz }, output: { sample_rate_hz: preset.outputRateHz } },
    // The page says what was really played, so the history can hold what was really heard.
    playback_commit_policy: "ack_only",
    ...session,
    ...(voice.trim() ? { voice: voice.trim() } : {}),
    ...(instructions.trim() ? { instructions: instructions.trim() } : {}),
    ...(reference ? { ref_audio: reference } : {}),
    extra_body: { auto_response: true, ...extra },
  };
}
