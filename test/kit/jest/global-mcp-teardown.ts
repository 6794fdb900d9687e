export default async function globalTeardown(): Promise<void> {
  const { stopTestStack } = globalThis as { stopTestStack?: () => Promise<void> };
  await stopTestStack?.();
}
