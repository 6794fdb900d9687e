/** Marks each attempt of a test event. A delivery of a real event never has it. */
export const TEST_HEADER = 'X-Service-Test';

/** Returns the header that tells a test event from a real one. */
export function testEventHeaders(delivery: { readonly test: boolean }): Record<string, string> {
  return delivery.test ? { [TEST_HEADER]: 'true' } : {};
}
