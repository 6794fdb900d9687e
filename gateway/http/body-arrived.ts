import type { IncomingMessage, ServerResponse } from 'node:http';
import { ClientGone } from './client-gone.ts';

/**
 * Waits for a small body without reading it. Node keeps the bytes for the handler that reads them later. A body that is
 * larger than Node's buffer (64 KiB) counts as arrived when the buffer is full. Limit the time with
 * {@link closeUnlessReceived}.
 *
 * @throws ClientGone when the client has disconnected, also after its body was complete.
 */
export async function bodyArrived(req: IncomingMessage): Promise<void> {
  const hasEnded = (): boolean =>
    req.complete || req.destroyed || req.readableLength >= req.readableHighWaterMark;
  if (!hasEnded()) {
    await new Promise<void>((resolve) => {
      const check = (): void => {
        if (!hasEnded()) return;
        req.off('readable', check).off('close', check);
        resolve();
      };
      req.on('readable', check).on('close', check);
    });
  }
  if (req.destroyed) throw new ClientGone();
}

/** Closes the connection if the body does not arrive in time. */
export function closeUnlessReceived(req: IncomingMessage, res: ServerResponse, ms: number): void {
  const timer = setTimeout(() => {
    // If the response has begun, its end closes the connection.
    if (!req.complete && !res.headersSent) req.socket.destroy();
  }, ms);
  res.once('close', () => clearTimeout(timer));
}
