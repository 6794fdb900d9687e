export default async function globalTeardown(): Promise<void> {
  if ('stopTestPostgres' in globalThis && typeof globalThis.stopTestPostgres === 'function') {
    await globalThis.stopTestPostgres();
  }
}
