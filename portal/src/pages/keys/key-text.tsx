import { Alert, Button, Code, Group, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Copyable } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { useSession } from '../../session/session.tsx';

/** The text of a new key, which is shown only now, with a first call to try. */
export function KeyText(o: {
  readonly text: string;
  readonly onClose: () => void;
  readonly children?: ReactNode;
}) {
  const { links } = useSession();
  return (
    <Dialog title="Copy the key now" size="lg" sticky onClose={o.onClose}>
      <Stack>
        <Alert color="yellow" title="This is the only time that the key is shown">
          <Copyable value={o.text} label="the API key" />
        </Alert>
        {o.children}
        <Text size="sm">Send it in the header X-Authorization, for example:</Text>
        <Code block tabIndex={0} role="region" aria-label="Example of a call">
          {`curl -H 'X-Authorization: ${o.text}' \\\n  '${links?.baseUrl ?? ''}/api/2026-10/warehouse/return/details?order_name=%231001'`}
        </Code>
        <Group justify="flex-end">
          <Button onClick={o.onClose}>I have copied it</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
