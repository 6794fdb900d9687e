export default async function globalTeardown(): Promise<void> {
  const { stopTestDatabase } = globalThis as { stopTestDatabase?: () => Promise<void> };
  await stopTestDatabase?.();
}
