import type { ServerResponse } from 'node:http';

/** Calls `act` before the headers of the response are sent, so before the client can delay anything. */
export function beforeHeaders(res: ServerResponse, act: () => void): void {
  const writeHead = res.writeHead.bind(res) as (...args: unknown[]) => ServerResponse;
  const wrapped = (...args: unknown[]): ServerResponse => {
    act();
    return writeHead(...args);
  };
  res.writeHead = wrapped as typeof res.writeHead;
}
