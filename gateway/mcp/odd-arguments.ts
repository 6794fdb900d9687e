/** A message that the protocol's library takes, and what it would have refused in its own words. */
export interface Loosened {
  readonly message: object;
  /** Arguments of a tool that are no object; undefined where they are one, or absent. */
  readonly oddArguments: unknown;
}

/**
 * Takes arguments that are no object out of a call, so that the tool can say what is wrong with them: an
 * assistant acts on a result, while an error of the protocol may never reach it. Null counts as none.
 */
export function loosened(message: object): Loosened {
  const params: unknown = Reflect.get(message, 'params');
  const isCall = Reflect.get(message, 'method') === 'tools/call';
  if (!isCall || typeof params !== 'object' || params === null) {
    return { message, oddArguments: undefined };
  }
  const args: unknown = Reflect.get(params, 'arguments');
  const isObject = typeof args === 'object' && args !== null && !Array.isArray(args);
  if (args === undefined || isObject) return { message, oddArguments: undefined };
  return {
    message: { ...message, params: { ...params, arguments: {} } },
    oddArguments: args ?? undefined,
  };
}
