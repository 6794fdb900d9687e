import { Group, Paper, Text, Title } from '@mantine/core';
import { type ReactNode, useId } from 'react';

/** A titled part of a page. */
export function Panel(o: {
  readonly title: string;
  readonly about?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}) {
  const id = useId();
  return (
    <Paper withBorder p="md" component="section" aria-labelledby={id}>
      <Group justify="space-between" align="flex-start" mb="sm">
        <div>
          <Title order={2} id={id}>
            {o.title}
          </Title>
          {o.about !== undefined && (
            <Text size="sm" c="dimmed" component="div">
              {o.about}
            </Text>
          )}
        </div>
        {o.actions}
      </Group>
      {o.children}
    </Paper>
  );
}
