import { existsSync, writeFileSync } from 'node:fs';

/** Paths of Debian's package `libfaketime`, by processor. */
const LIBRARIES = ['x86_64', 'aarch64'].map(
  (processor) => `/usr/lib/${processor}-linux-gnu/faketime/libfaketime.so.1`,
);

/** A wall clock for a server that can be set while the server runs. Its monotonic clock is not changed. */
export interface FakedTime {
  /** Added to the environment of the server. */
  readonly env: Readonly<Record<string, string>>;
  /** Sets the difference to real time. The server notices it within about a second. */
  set(offsetSeconds: number): void;
}

/**
 * @param file the function writes it, and the server must be able to read it.
 * @throws Error when the library is not installed.
 */
export function fakedTime(file: string): FakedTime {
  const library = LIBRARIES.find((path) => existsSync(path));
  if (!library) throw new Error('skipped: libfaketime is missing (apt-get install libfaketime)');
  const set = (offsetSeconds: number): void => {
    writeFileSync(file, `${offsetSeconds < 0 ? '' : '+'}${offsetSeconds}s\n`, { mode: 0o644 });
  };
  set(0);
  return {
    set,
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  };
}
