import type { MessageInitShape } from '@bufbuild/protobuf';
import { useQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import type {
  PreviewReplayResponse,
  ReplayFilterSchema,
} from '../../../../proto/gen/rms/portal/v1/replays_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { count } from '../../words.ts';
import { notSentItems } from './not-sent.ts';

/** Counts what a filter would send again, and starts the job. */
export function ReplayDialog(o: {
  readonly filter: MessageInitShape<typeof ReplayFilterSchema>;
  readonly onClose: () => void;
}) {
  const navigate = useNavigate();
  const preview = useQuery(
    WebhooksService.method.previewReplay,
    { filter: o.filter },
    // Each opening counts again: an earlier count would leave out what happened since then.
    { staleTime: Infinity, gcTime: 0 },
  );
  const { run, isPending, error } = useWrite(WebhooksService.method.startReplay, {
    inline: true,
    onSuccess: ({ replay }) => {
      o.onClose();
      if (replay) void navigate({ to: '/replays/$replayId', params: { replayId: replay.id } });
    },
  });
  const { data } = preview;
  const filter = data?.filter;
  const isPossible = data !== undefined && data.replayable > 0 && !data.more;
  return (
    <FormModal
      title="Send deliveries again"
      onClose={o.onClose}
      submit={isPossible ? `Send ${count(data.replayable, 'delivery', 'deliveries')}` : 'Send'}
      pending={isPending}
      error={error}
      disabled={!isPossible}
      onSubmit={() => filter && run({ filter })}
    >
      <Loaded query={preview} rows={3}>
        {(found) => <Preview found={found} />}
      </Loaded>
    </FormModal>
  );
}

function Preview({ found }: { readonly found: PreviewReplayResponse }) {
  if (found.matched === 0) return <Text>No delivery matches these filters.</Text>;
  return (
    <Stack gap="sm">
      <Text size="sm">
        {found.more ? 'More than ' : ''}
        {count(found.matched, 'delivery matches', 'deliveries match')}, of events from{' '}
        <Time at={found.oldestAt} /> to <Time at={found.newestAt} />.
        {found.more && ' That is too many for one job: choose a shorter time.'}
      </Text>
      {found.notReplayable.length > 0 && <Bullets items={notSentItems(found.notReplayable)} />}
      <Text size="sm" c="dimmed">
        Each is sent once, oldest first, with the same webhook-id and the same payload. A system
        that remembers the webhook-id handles nothing twice. New events go first. You can stop it.
      </Text>
    </Stack>
  );
}
