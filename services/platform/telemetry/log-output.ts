import { fstatSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * The output for the log lines of a process. It never stops the process: not when the disk is full, nor when the reader
 * is slow or missing.
 */
export interface LogOutput {
  /** Writes a line. Never throws and never waits. */
  write(line: string): void;
  /** Number of lines dropped since the start of the process. */
  dropped(): number;
  /** Writes the waiting lines, for at most this time. Milliseconds. */
  drain(timeoutMs: number): Promise<void>;
}

/** Maximum number of bytes that wait in memory. Above it, lines are dropped. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** Pause between two tries to write waiting lines. Milliseconds. */
const RETRY_MS = 100;
const DRAIN_EVERY_MS = 10;

/**
 * Writes each line to a file descriptor immediately, so that the last lines of a process are not lost. Lines that
 * cannot be written (ENOSPC, EAGAIN, EPIPE …) wait in memory, up to 1 MiB; more lines are dropped. When writing works
 * again, a line says how many were dropped.
 *
 * @param fd must not block: see {@link standardOutput}.
 */
export function createLogOutput(fd: number): LogOutput {
  const waiting: Buffer[] = [];
  let waitingBytes = 0;
  let dropped = 0;
  let reported = 0;
  let retry: NodeJS.Timeout | undefined;

  function enqueue(rest: Buffer): void {
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

  /** Returns the oldest waiting line. When no line waits, returns a line with the number of dropped lines. */
  function next(): Buffer | undefined {
    if (waiting.length === 0 && dropped > reported) {
      enqueue(Buffer.from(droppedLine(dropped - reported)));
      reported = dropped;
    }
    return waiting[0];
  }

  return {
    write(line) {
      const whole = Buffer.from(line);
      if (waiting.length === 0) {
        const rest = writeSome(fd, whole);
        if (rest.length > 0) enqueue(rest);
      } else if (waitingBytes + whole.length <= MAX_WAITING_BYTES) enqueue(whole);
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

/** Writes as many bytes as possible. Returns the rest. */
function writeSome(fd: number, bytes: Buffer): Buffer {
  let rest = bytes;
  try {
    while (rest.length > 0) rest = rest.subarray(writeSync(fd, rest));
  } catch {
    // Ignore the error. The next try may succeed, and there is no other place to log it.
  }
  return rest;
}

function droppedLine(lines: number): string {
  const time = new Date().toISOString();
  const msg = 'log lines were dropped: they could not be written';
  return `${JSON.stringify({ level: 'warn', time, lines, msg })}\n`;
}

const STDOUT = 1;
let standard: LogOutput | undefined;

/** Returns the log output of the process. All its parts share it, because they share the file descriptor. */
export function standardOutput(): LogOutput {
  standard ??= openStandardOutput();
  return standard;
}

function openStandardOutput(): LogOutput {
  const kind = fstatSync(STDOUT);
  // Opening the stream makes a pipe non-blocking. A blocking pipe would stop the process when its reader stops. Add the
  // listener only once: test runners load this module several times in one process.
  if ((kind.isFIFO() || kind.isSocket()) && process.stdout.listenerCount('error') === 0) {
    process.stdout.on('error', ignore);
  }
  return createLogOutput(STDOUT);
}

function ignore(): void {}
