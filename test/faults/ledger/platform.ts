import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';

/** A refund that the platform has paid. */
export interface Payment {
  readonly key: string;
  readonly returnId: number;
  /** The order of the shopper. */
  readonly orderId: number;
  readonly amount: string;
}

/** The platform of a merchant, outside of the system. It remembers each key, and pays once for it. */
export interface Platform {
  readonly url: string;
  /** All payments, oldest first. */
  payments(): readonly Payment[];
  stop(): Promise<void>;
}

interface Data extends Pick<Payment, 'key' | 'amount'> {
  readonly return_id: number;
  readonly order: { readonly id: number };
  readonly currency: string;
}

/** Starts a platform on loopback. It speaks the commerce protocol (docs/commerce.md), for refunds only. */
export async function startPlatform(): Promise<Platform> {
  const effects = new Map<string, { readonly effect: object; readonly payment: Payment }>();
  const pay = ({ key, amount, currency, order, return_id: returnId }: Data): object => {
    const known = effects.get(key);
    if (known) return known.effect;
    const payment = { key, returnId, orderId: order.id, amount };
    const effect = { id: `R-${effects.size + 1}`, amount, currency, gateway: 'card' };
    effects.set(key, { effect, payment });
    return effect;
  };
  const answer = async (request: IncomingMessage): Promise<object> => {
    const { type, data } = JSON.parse(await text(request)) as { type: string; data: Data };
    if (type === 'refund.create') return { effect: pay(data) };
    if (type === 'effect.find') return { effect: effects.get(data.key)?.effect ?? null };
    throw new Error(`unexpected ${type}`);
  };
  const server = createServer((request, response) => {
    answer(request).then(
      (body) => response.end(JSON.stringify(body)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  return {
    url: `http://127.0.0.1:${port}/`,
    payments: () => [...effects.values()].map(({ payment }) => payment),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
