import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Edge, startEdge } from '../../security/edge-process.ts';
import { ATTACK_NAMES, type AttackMethods } from '../attack.ts';
import { startWorker } from '../child.ts';
import type { Figure } from '../figure.ts';
import type { Platform } from '../platform.ts';
import { atMost, type Bench, type Row } from '../row.ts';
import { type BenchShop, makeShop } from '../shop.ts';
import { monotonicMs } from '../stats.ts';

const SECONDS = 60;
const QUICK_SECONDS = 5;
const CLIENTS = 20;
/** Between two requests of a client. Milliseconds. */
const PAUSE_MS = 200;
const TIMEOUT_MS = 5_000;
/** Of the manifests. MiB. */
const MEMORY = { gateway: 768, edge: 512 };

/** What clients see while strangers attack. */
export const edge: Row = {
  name: 'edge',
  about: `HAProxy of deploy/components/edge before one gateway: p99 of ${CLIENTS} clients that each read every ${PAUSE_MS} ms, for ${SECONDS} s without an attack and during each, from eight addresses; probes of the edge and of HEALTH_PORT beside them.`,
  async run(bench) {
    const { platform } = bench;
    await platform.run(['gateway', 'returns', 'webhooks', 'dispositions']);
    const [shop, ...others] = [
      await makeShop(platform),
      await makeShop(platform),
      await makeShop(platform),
    ];
    await platform.run(['gateway', 'webhooks', 'dispositions']);
    const front = await startEdge({ gatewayPort: Number(new URL(platform.gatewayUrl).port) });
    try {
      const to = { port: front.port, keys: others.map(keyOf) };
      const seconds = bench.quick ? QUICK_SECONDS : SECONDS;
      // Code is compiled, connections are opened.
      await clients(bench, { front, shop, seconds: 5 });
      const quiet = await clients(bench, { front, shop, seconds });
      bench.note(`quiet: ${JSON.stringify(quiet)}`);
      const figures: Figure[] = [];
      for (const name of ATTACK_NAMES) {
        const attack = startWorker<AttackMethods>({ name, args: ['test/bench/attack.ts'] });
        await attack.call('begin', { ...to, name });
        const seen = await clients(bench, { front, shop, seconds });
        await attack.stop();
        bench.note(`${name}: ${JSON.stringify(seen)}`);
        figures.push(
          atMost(3, {
            name: `${name}: p99 to that without it`,
            value: seen.p99 / quiet.p99,
            more: `${seen.p99.toFixed(0)} and ${quiet.p99.toFixed(0)} ms, ${seen.requests} requests`,
          }),
          atMost(0, { name: `${name}: failed`, value: seen.failed, digits: 0 }),
          atMost(0, { name: `${name}: probes missed`, value: seen.missed, digits: 0 }),
        );
      }
      const memory = { digits: 0, unit: ' MiB' };
      return [
        ...figures,
        atMost(MEMORY.edge, { name: 'memory of the edge', value: front.peakMiB(), ...memory }),
        atMost(MEMORY.gateway, { name: 'of the gateway', value: peakOf(platform), ...memory }),
      ];
    } finally {
      await front.stop();
    }
  },
};

const keyOf = ({ headers }: BenchShop): string => headers['X-Authorization'] ?? '';

interface Seen {
  readonly requests: number;
  /** Answers other than 200, and none within {@link TIMEOUT_MS}. */
  readonly failed: number;
  readonly missed: number;
  /** Milliseconds. */
  readonly p99: number;
}

/** Clients, each with an address of its own, and probes. */
async function clients(
  { platform }: Bench,
  o: { readonly front: Edge; readonly shop: BenchShop; readonly seconds: number },
): Promise<Seen> {
  const until = monotonicMs() + o.seconds * 1_000;
  const times: number[] = [];
  let [failed, missed] = [0, 0];
  const client = async (nth: number): Promise<void> => {
    const localAddress = `127.0.1.${nth + 1}`;
    const agent = new Agent({ keepAlive: true, maxSockets: 1, localAddress });
    await sleep((PAUSE_MS * nth) / CLIENTS);
    while (monotonicMs() < until) {
      const began = monotonicMs();
      const headers = { 'X-Authorization': keyOf(o.shop) };
      const status = await statusOf(o.front.port, {
        path: '/api/2026-10/webhooks',
        headers,
        agent,
      });
      times.push(monotonicMs() - began);
      if (status !== 200) failed += 1;
      await sleep(PAUSE_MS);
    }
    agent.destroy();
  };
  const probe = async (port: number): Promise<void> => {
    while (monotonicMs() < until) {
      const agent = new Agent({ localAddress: '127.0.2.1' });
      if ((await statusOf(port, { path: '/livez', agent })) !== 200) missed += 1;
      await sleep(1_000);
    }
  };
  await Promise.all([
    ...Array.from({ length: CLIENTS }, (_, nth) => client(nth)),
    probe(o.front.port),
    probe(platform.gatewayHealthPort),
  ]);
  const sorted = times.toSorted((a, b) => a - b);
  const p99 = sorted[Math.floor(0.99 * (sorted.length - 1))] ?? 0;
  return { requests: times.length, failed, missed, p99 };
}

function statusOf(
  port: number,
  o: { readonly path: string; readonly agent: Agent; readonly headers?: Record<string, string> },
): Promise<number> {
  return new Promise((resolve) => {
    const req = request({ host: '127.0.0.1', port, timeout: TIMEOUT_MS, ...o }, (res) => {
      res.resume().once('close', () => resolve(res.complete ? (res.statusCode ?? 0) : 0));
    });
    req.once('timeout', () => req.destroy()).once('error', () => resolve(0));
    req.end();
  });
}

/** The largest memory of the gateway so far. MiB. */
function peakOf(platform: Platform): number {
  const gateway = platform.processes().find(({ name }) => name === 'gateway');
  const status = readFileSync(`/proc/${gateway?.child.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) / 1_024;
}
