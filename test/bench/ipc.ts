/** Methods of a child process. Its parent calls them over the channel that Node opens between them. */
export type Methods = Readonly<Record<string, (input: never) => unknown>>;

interface Call {
  readonly id: number;
  readonly method: string;
  readonly input: unknown;
}

/** The number of received deliveries. A child sends it without a call. */
export interface Received {
  readonly received: number;
}

type Result = { readonly id: number } & ({ readonly value: unknown } | { readonly error: string });

/** Serves the parent's calls until the channel closes, and then exits. */
export function serveParent(methods: Methods): void {
  process.on('message', (call: Call) => {
    run(methods, call).then(
      (value) => send({ id: call.id, value }),
      (error: unknown) => send({ id: call.id, error: String(error) }),
    );
  });
  process.once('disconnect', () => process.exit(0));
}

/** Reports the number of received deliveries to the parent. */
export function reportReceived(received: number): void {
  send({ received });
}

async function run(methods: Methods, { method, input }: Call): Promise<unknown> {
  const found = methods[method];
  if (!found) throw new Error(`there is no ${method}`);
  return await found(input as never);
}

function send(message: Result | Received): void {
  process.send?.(message);
}
