export default async function globalTeardown(): Promise<void> {
  const { stopTestPostgres } = globalThis as { stopTestPostgres?: () => Promise<void> };
  await stopTestPostgres?.();
}
