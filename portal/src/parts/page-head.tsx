import { Box, Group, Text, Title } from '@mantine/core';
import { useDocumentTitle } from '@mantine/hooks';
import type { ReactNode } from 'react';

/** The heading of a page, one sentence about it, and its actions. Also sets the title of the tab. */
export function PageHead(o: {
  readonly title: string;
  readonly about?: ReactNode;
  readonly actions?: ReactNode;
}) {
  useDocumentTitle(`${o.title} · Returns portal`);
  return (
    <Group justify="space-between" align="flex-start" gap="md" mb="lg">
      <Box maw={760} miw={0} flex="1 1 18rem">
        <Title order={1}>{o.title}</Title>
        {o.about !== undefined && (
          <Text c="dimmed" mt={4} component="div">
            {o.about}
          </Text>
        )}
      </Box>
      {o.actions !== undefined && <Group gap="xs">{o.actions}</Group>}
    </Group>
  );
}
