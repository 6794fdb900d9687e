import { execFile } from 'node:child_process';
import { constants, openSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import { StopWaitingError } from '../../kit/until.ts';
import { inBatches } from '../in-batches.ts';
import { openPartnerShop } from '../ledger/partner.ts';
import type { Row, RowContext, RowResult } from '../row.ts';
import { type ServiceProcess, serviceProcess } from '../system/service-process.ts';
import { waitFor } from '../wait.ts';

const START_MS = 60_000;
const RESPONSE_MS = 10_000;
const PARALLEL = 20;
/** A response causes a log line of about 300 bytes. A process buffers 1 MiB of them, and a pipe 64 KiB. */
const ENOUGH_LINES = 6_000;
const DROPPED = 'log lines were dropped';

/**
 * A process with a log on a full disk, or with a log reader that has stopped reading, keeps working and can be stopped.
 */
export const fullLogRow: Row = {
  name: 'full-log-disk',
  fault: 'the disk of the log is full; the reader of the log stops reading',
  mustHold:
    'requests are answered; lines are dropped, counted and reported; SIGTERM stops in order',
  budgetMs: { short: 150_000, full: 150_000 },
  async run(context) {
    const { key } = await openPartnerShop(context.system);
    const folder = await mkdtemp(join(tmpdir(), 'rms-faults-log-'));
    try {
      const [port, metricsPort, otherPort, otherMetricsPort] = await freePorts(4);
      const [full, paused] = await Promise.all([
        onFullDisk(context, { key, ports: { port, metricsPort } }),
        withPausedReader(context, {
          key,
          pipe: join(folder, 'log'),
          ports: { port: otherPort, metricsPort: otherMetricsPort },
        }),
      ]);
      const none = { lost: 0, duplicates: 0, unexplained: 0, doubts: [] };
      const inFlight = full.answers + paused.answers;
      const figures = [`${inFlight} answers`, `${paused.dropped} lines dropped`];
      const problems = [...full.problems, ...paused.problems];
      return { ...none, trials: 2, inFlight, figures, problems } satisfies RowResult;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

interface Found {
  readonly answers: number;
  readonly problems: readonly string[];
}

async function onFullDisk(
  context: RowContext,
  { key, ports }: { readonly key: string; readonly ports: Ports },
): Promise<Found> {
  const gateway = await startGateway(context, { logFile: '/dev/full', ports });
  try {
    const answers = await ask(gateway, { key, count: 50 });
    return { answers, problems: problemsOfStop('a full disk', await gateway.process.stop()) };
  } finally {
    await gateway.process.kill();
  }
}

async function withPausedReader(
  context: RowContext,
  { key, pipe, ports }: { readonly key: string; readonly pipe: string; readonly ports: Ports },
): Promise<Found & { readonly dropped: number }> {
  await promisify(execFile)('mkfifo', [pipe]);
  // Both ends are opened together, because each waits for the other. A read of a file would wait for good in a pipe that
  // stays empty; a read of a socket ends with it.
  const reader = new Socket({ fd: openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK) });
  reader.pause();
  const gateway = await startGateway(context, { logFile: pipe, ports });
  try {
    const answers = await ask(gateway, { key, count: ENOUGH_LINES });
    const dropped = await droppedBy(gateway);
    const wasReported = await reportIn(reader);
    const problems = problemsOfStop('a reader that stopped reading', await gateway.process.stop());
    if (dropped === 0) problems.push('no line was dropped');
    if (!wasReported) problems.push('no line says how many lines were dropped');
    return { answers, dropped, problems };
  } finally {
    await gateway.process.kill();
    reader.destroy();
  }
}

interface Ports {
  readonly port: number | undefined;
  readonly metricsPort: number | undefined;
}

interface Gateway {
  readonly process: ServiceProcess;
  readonly url: string;
  readonly metricsUrl: string;
}

/** Starts another gateway with this log. */
async function startGateway(
  { system }: RowContext,
  { logFile, ports }: { readonly logFile: string; readonly ports: Ports },
): Promise<Gateway> {
  const { port = 0, metricsPort = 0 } = ports;
  const [known] = system.members('gateway');
  if (!known) throw new Error('there is no gateway');
  const running = serviceProcess({
    name: 'gateway-log',
    args: ['gateway/main.ts'],
    env: { ...known.process.env, PORT: String(port), METRICS_PORT: String(metricsPort) },
    logFile,
  });
  running.start();
  const url = `http://127.0.0.1:${port}`;
  const isReady = async () => {
    if (!running.isRunning()) throw new StopWaitingError('the gateway has exited');
    return (await fetch(`${url}/readyz`)).status === 200;
  };
  await waitFor(isReady, { what: 'a gateway serves', withinMs: START_MS });
  return { process: running, url, metricsUrl: `http://127.0.0.1:${metricsPort}/metrics` };
}

/**
 * Requests returns that do not exist, because each response to a key causes a line in the log.
 *
 * @throws Error when a response is missing.
 */
async function ask(
  { url }: Gateway,
  { key, count }: { readonly key: string; readonly count: number },
): Promise<number> {
  const numbers = Array.from({ length: count }, (_, n) => n);
  const statuses = await inBatches(numbers, PARALLEL, async (n) => {
    const answer = await fetch(`${url}/api/2026-10/warehouse/return/details?return_id=${n + 1}`, {
      headers: { 'X-Authorization': key },
      signal: AbortSignal.timeout(RESPONSE_MS),
    });
    await answer.arrayBuffer();
    return answer.status;
  });
  return statuses.length;
}

async function droppedBy({ metricsUrl }: Gateway): Promise<number> {
  const page = await (await fetch(metricsUrl)).text();
  return Number(/^log_lines_dropped_total\S* (\d+)/m.exec(page)?.[1] ?? 0);
}

/** Reads the pipe until the report about dropped lines appears. */
async function reportIn(reader: Socket): Promise<boolean> {
  const overdue = setTimeout(() => reader.destroy(), RESPONSE_MS);
  let tail = '';
  try {
    for await (const chunk of reader.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      tail = `${tail.slice(-DROPPED.length)}${chunk}`;
      if (tail.includes(DROPPED)) return true;
    }
    return false;
  } catch {
    return false;
  } finally {
    clearTimeout(overdue);
  }
}

function problemsOfStop(what: string, code: number | null): string[] {
  return code === 0 ? [] : [`with ${what} SIGTERM ended with ${code ?? 'SIGKILL'}`];
}
