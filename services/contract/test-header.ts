/** This header marks each attempt of a test event. An attempt of a real event never has it. */
export const TEST_HEADER = 'X-Service-Test';

/** Returns the headers that mark a test event. There are none for a real event. */
export function testEventHeaders(delivery: { readonly test: boolean }): Record<string, string> {
  return delivery.test ? { [TEST_HEADER]: 'true' } : {};
}
