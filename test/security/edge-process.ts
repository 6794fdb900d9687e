import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../deploy/local/free-ports.ts';
import { until } from '../kit/until.ts';

/** The configuration that is deployed. */
const CONFIG = fileURLToPath(new URL('../../deploy/components/edge/haproxy.cfg', import.meta.url));

export interface Edge {
  readonly port: number;
  readonly url: string;
  /** Its largest memory so far. MiB. */
  peakMiB(): number;
  stop(): Promise<void>;
}

/**
 * Starts HAProxy in front of a gateway, with the configuration that is deployed.
 *
 * @param o.config another configuration, with the same variables.
 */
export async function startEdge(o: {
  readonly gatewayPort: number;
  readonly config?: string;
  /** Addresses of balancers in front. */
  readonly balancers?: string;
}): Promise<Edge> {
  const [port, metrics] = [await freePort(), await freePort()];
  const child: ChildProcess = spawn('haproxy', ['-db', '-f', o.config ?? CONFIG], {
    env: {
      PATH: process.env.PATH ?? '',
      EDGE_BIND: `127.0.0.1:${port}`,
      EDGE_BALANCERS: o.balancers ?? '127.255.255.255',
      EDGE_GATEWAY: `127.0.0.1:${o.gatewayPort}`,
      EDGE_GATEWAYS: '1',
      EDGE_METRICS_BIND: `127.0.0.1:${metrics}`,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = once(child, 'exit');
  const url = `http://127.0.0.1:${port}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error('haproxy has exited');
    return (await fetch(`${url}/livez`).catch(() => undefined))?.ok === true;
  });
  return {
    port,
    url,
    peakMiB() {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024;
    },
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}
