/** A message that the MCP library accepts, and the arguments that it would have rejected. */
export interface CheckedMessage {
  readonly message: object;
  /** Arguments of a tool call that are not an object; undefined when they are an object or absent. */
  readonly invalidArguments: unknown;
}

/**
 * Removes arguments that are not an object from a tool call, so that the tool can report the fault in its result.
 * An assistant sees the result of a tool, but may never see a protocol error. Null counts as absent.
 */
export function takeOutInvalidArguments(message: object): CheckedMessage {
  const params: unknown = Reflect.get(message, 'params');
  const isCall = Reflect.get(message, 'method') === 'tools/call';
  if (!isCall || typeof params !== 'object' || params === null) {
    return { message, invalidArguments: undefined };
  }
  const args: unknown = Reflect.get(params, 'arguments');
  const isObject = typeof args === 'object' && args !== null && !Array.isArray(args);
  if (args === undefined || isObject) return { message, invalidArguments: undefined };
  return {
    message: { ...message, params: { ...params, arguments: {} } },
    invalidArguments: args ?? undefined,
  };
}
