// The microphone, as chunks in the session's format.

const WORKLET = new URL("./capture-worklet.js", import.meta.url);

// `heard({samples, levels, endedAtMs})` is called for every chunk; `levels` are peaks of 20 ms each, and `endedAtMs`
// is on the page's own clock. `lost()` says that the device is gone; silence follows. Rejects with the browser's own
// error when there is no microphone or no leave to use it.
export async function openMicrophone(context, { rateHz, chunkMs, deviceId = "", heard, lost }) {
  const stream = await navigator.mediaDevices.getUserMedia({
    audio: {
      echoCancellation: true,
      noiseSuppression: true,
      autoGainControl: true,
      channelCount: 1,
      ...(deviceId ? { deviceId: { exact: deviceId } } : {}),
    },
  });
  await context.audioWorklet.addModule(WORKLET);
  const source = new MediaStreamAudioSourceNode(context, { mediaStream: stream });
  const worklet = new AudioWorkletNode(context, "duplex-capture", {
    numberOfOutputs: 0,
    channelCount: 1,
    channelCountMode: "explicit",
    processorOptions: { rateHz, chunkMs },
  });
  worklet.port.onmessage = ({ data: { chunk, levels, endedAt } }) => {
    const agoMs = Math.max(0, (context.currentTime - endedAt) * 1000);
    heard({ samples: chunk, levels, endedAtMs: performance.now() - agoMs });
  };
  source.connect(worklet);
  for (const track of stream.getTracks()) track.onended = lost;
  return {
    setMuted: (isMuted) => worklet.port.postMessage({ isMuted }),
    close: () => {
      source.disconnect();
      worklet.port.onmessage = null;
      for (const track of stream.getTracks()) track.stop();
    },
  };
}
