import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import type { Readiness } from './probes.ts';

/** What the thread of the probes gets. */
export interface ProbeThreadData {
  readonly host: string;
  readonly port: number;
  /** How often the event loop has shown that it runs. */
  readonly beats: Int32Array;
  /** Milliseconds. */
  readonly beatMs: number;
}

export interface ProbePort {
  readonly port: number;
  stop(): Promise<void>;
}

/**
 * Serves `GET /livez` and `GET /readyz` on a port and a thread of their own, so that no load of clients delays a probe
 * until Kubernetes restarts the process. Liveness is 503 when the event loop has not run for 15 s. Readiness is asked of
 * the event loop; while that is too busy to answer, its last answer counts for 15 s.
 *
 * @param o.port 0 takes a free one.
 * @param o.beatMs of tests; a second otherwise.
 * @throws when the port is in use.
 */
export async function startProbePort(o: {
  readonly host: string;
  readonly port: number;
  readonly readiness: () => Promise<Readiness>;
  readonly logger: Pick<Logger, 'error'>;
  readonly beatMs?: number;
}): Promise<ProbePort> {
  const { host, port, readiness, logger, beatMs = 1_000 } = o;
  const beats = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const workerData: ProbeThreadData = { host, port, beats, beatMs };
  const thread = new Worker(new URL('./probe-thread.ts', import.meta.url), {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  });
  const [listening] = await once(thread, 'message');
  // Without its answers Kubernetes restarts the process, in order.
  thread.on('error', (err) => logger.error({ err }, 'the thread of the probes has ended'));
  const timer = setInterval(() => Atomics.add(beats, 0, 1), beatMs);
  thread.on('message', async () => {
    thread.postMessage(await readiness().catch(() => UNKNOWN));
  });
  return {
    port: listening,
    async stop() {
      clearInterval(timer);
      await thread.terminate();
    },
  };
}

const UNKNOWN: Readiness = { ready: false, parts: { gateway: 'its check failed' } };
