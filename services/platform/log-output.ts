import { fstatSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Where the lines of a process go. A full disk, a slow reader or none at all never stops the process. */
export interface LogOutput {
  /** Never throws, never waits. */
  write(line: string): void;
  /** Lines dropped since the process began. */
  dropped(): number;
  /** Writes what waits, for as long as the time allows. Milliseconds. */
  drain(timeoutMs: number): Promise<void>;
}

/** Bytes that wait in memory before further lines are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** Between two tries to write what waits. Milliseconds. */
const RETRY_MS = 100;
const DRAIN_EVERY_MS = 10;

/**
 * Writes lines to a file descriptor at once, so that the last words of a process are not lost. What cannot
 * be written (ENOSPC, EAGAIN, EPIPE …) waits, at most 1 MiB of it; further lines are dropped, and a line
 * that says how many follows once writing works again.
 *
 * @param fd must not block: see {@link standardOutput}.
 */
export function createLogOutput(fd: number): LogOutput {
  const waiting: Buffer[] = [];
  let waitingBytes = 0;
  let dropped = 0;
  let reported = 0;
  let retry: NodeJS.Timeout | undefined;

  function keep(rest: Buffer): void {
    waiting.push(rest);
    waitingBytes += rest.length;
    retry ??= setInterval(writeWaiting, RETRY_MS).unref();
  }

  function writeWaiting(): void {
    for (let first = next(); first; first = next()) {
      const rest = writeSome(fd, first);
      waitingBytes -= first.length - rest.length;
      if (rest.length > 0) {
        waiting[0] = rest;
        return;
      }
      waiting.shift();
    }
    clearInterval(retry);
    retry = undefined;
  }

  /** What waits for longest; behind it all, how many lines are missing. */
  function next(): Buffer | undefined {
    if (waiting.length === 0 && dropped > reported) {
      keep(Buffer.from(lineAbout(dropped - reported)));
      reported = dropped;
    }
    return waiting[0];
  }

  return {
    write(line) {
      const whole = Buffer.from(line);
      if (waiting.length === 0) {
        const rest = writeSome(fd, whole);
        if (rest.length > 0) keep(rest);
      } else if (waitingBytes + whole.length <= MAX_WAITING_BYTES) keep(whole);
      else dropped += 1;
    },
    dropped: () => dropped,
    async drain(timeoutMs) {
      const end = performance.now() + timeoutMs;
      for (;;) {
        writeWaiting();
        if (waiting.length === 0 || performance.now() >= end) return;
        await sleep(DRAIN_EVERY_MS);
      }
    },
  };
}

/** Answers what could not be written. */
function writeSome(fd: number, bytes: Buffer): Buffer {
  let rest = bytes;
  try {
    while (rest.length > 0) rest = rest.subarray(writeSync(fd, rest));
  } catch {
    // Whatever the reason: it may be over at the next try, and there is nowhere to say it.
  }
  return rest;
}

function lineAbout(lines: number): string {
  const time = new Date().toISOString();
  const msg = 'log lines were dropped: they could not be written';
  return `${JSON.stringify({ level: 'warn', time, lines, msg })}\n`;
}

const STDOUT = 1;
let standard: LogOutput | undefined;

/** The one output of the process that all its parts share, as they share the file descriptor. */
export function standardOutput(): LogOutput {
  standard ??= openStandardOutput();
  return standard;
}

function openStandardOutput(): LogOutput {
  const kind = fstatSync(STDOUT);
  // Opening the stream makes a pipe non-blocking; a blocking one would stop the process with its reader.
  if (kind.isFIFO() || kind.isSocket()) process.stdout.on('error', ignore);
  return createLogOutput(STDOUT);
}

function ignore(): void {}
