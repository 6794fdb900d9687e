import type { IncomingMessage } from 'node:http';
import { ClientGone } from './client-gone.ts';

/**
 * Waits for a small body without reading it. Node keeps the bytes for the handler that reads them later. A body that is
 * larger than Node's buffer (64 KiB) counts as arrived when the buffer is full.
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
