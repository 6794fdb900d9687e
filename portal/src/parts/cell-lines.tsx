import { Text } from '@mantine/core';
import type { ReactNode } from 'react';

/** The line of a cell that says which row it is. */
export function FirstLine({ children }: { readonly children: ReactNode }) {
  return (
    <Text size="sm" fw={600}>
      {children}
    </Text>
  );
}

/** A line below, for what matters less. */
export function SecondLine({ children }: { readonly children: ReactNode }) {
  return (
    <Text size="xs" c="dimmed">
      {children}
    </Text>
  );
}
