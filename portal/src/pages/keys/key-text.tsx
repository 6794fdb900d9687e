import { Alert, Button, Code, Group, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Copyable, CopyText } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Fold } from '../../parts/fold.tsx';
import { useSession } from '../../session/session.tsx';

/** The text of a new key, which is shown only now, with what the engineers of the other system need. */
export function KeyText(o: {
  readonly text: string;
  readonly onClose: () => void;
  readonly children?: ReactNode;
}) {
  const { baseUrl = '', docsUrl = '' } = useSession().links ?? {};
  const api = `${baseUrl}/api/2026-10`;
  const handOver = [
    `Base URL: ${api}`,
    `API key, in the header X-Authorization: ${o.text}`,
    ...(docsUrl === '' ? [] : [`API reference: ${docsUrl}/reference`]),
  ].join('\n');
  return (
    <Dialog title="Copy the key now" size="lg" sticky onClose={o.onClose}>
      <Stack>
        <Alert color="yellow" title="This is the only time that the key is shown">
          <Copyable value={o.text} label="the API key" />
        </Alert>
        {o.children}
        <Group justify="space-between" wrap="nowrap" align="flex-start">
          <Text size="sm">
            For the engineers of the system. Send it so that nobody else can read it, not by e-mail.
          </Text>
          <CopyText value={handOver} label="the text for the engineers" />
        </Group>
        <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {handOver}
        </Code>
        <Fold title="Try it">
          <Code block tabIndex={0} role="region" aria-label="Example of a call">
            {`curl -H 'X-Authorization: ${o.text}' \\\n  '${api}/warehouse/return/details?order_name=%231001'`}
          </Code>
        </Fold>
        <Group justify="flex-end">
          <Button onClick={o.onClose}>I have copied it</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
