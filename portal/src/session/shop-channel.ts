/** Tells other tabs of this browser that the session moved to another shop. They have the same session. */

let channel: BroadcastChannel | undefined;

/** One channel for the page: a channel does not receive its own messages. */
function shopChannel(): BroadcastChannel {
  channel ??= new BroadcastChannel('portal-shop');
  return channel;
}

/** Tells the other tabs to ask where the session is now. */
export function announceMove(): void {
  shopChannel().postMessage('moved');
}

/** @returns a function that ends the subscription. */
export function onMoveElsewhere(listener: () => void): () => void {
  const at = shopChannel();
  at.addEventListener('message', listener);
  return () => at.removeEventListener('message', listener);
}
