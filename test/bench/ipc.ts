/** A process of the bench answers calls of its parent over the channel that Node opens between them. */
export type Methods = Readonly<Record<string, (input: never) => unknown>>;

interface Call {
  readonly id: number;
  readonly method: string;
  readonly input: unknown;
}

/** What a child sends besides answers. */
export interface Told {
  readonly received: number;
}

type Answer = { readonly id: number } & ({ readonly value: unknown } | { readonly error: string });

/** Serves the parent's calls until the channel closes, then ends the process. */
export function serveParent(methods: Methods): void {
  process.on('message', (call: Call) => {
    answer(methods, call).then(
      (value) => send({ id: call.id, value }),
      (error: unknown) => send({ id: call.id, error: String(error) }),
    );
  });
  process.once('disconnect', () => process.exit(0));
}

/** Tells the parent a number, unasked. */
export function tellParent(received: number): void {
  send({ received });
}

async function answer(methods: Methods, { method, input }: Call): Promise<unknown> {
  const found = methods[method];
  if (!found) throw new Error(`there is no ${method}`);
  return await found(input as never);
}

function send(message: Answer | Told): void {
  process.send?.(message);
}
