import { useQuery } from '@connectrpc/connect-query';
import { Button, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time/time.tsx';
import { changedParts, type Draft, draftOf } from './draft.ts';
import { Sentences } from './editor.tsx';
import { PART_TITLES } from './sentences.ts';

/** So many earlier versions can be chosen. */
const SHOWN = 100;

/** The earlier versions: what each said that the present one does not, and a way back. */
export function Versions(o: {
  readonly version: bigint;
  readonly present: Draft;
  readonly currency: string;
  /** Undefined for readers who may not change the policy. */
  readonly onUse: ((draft: Draft) => void) | undefined;
}) {
  const [chosen, setChosen] = useState('');
  const last = Number(o.version) - 1;
  const earlier = Array.from({ length: Math.min(last, SHOWN) }, (_, back) => String(last - back));
  if (last < 1) return null;
  return (
    <Panel title="Earlier versions" about="Each return keeps the version that judged it.">
      <Stack gap="sm">
        <NativeSelect
          label="Version"
          value={chosen}
          onChange={({ currentTarget }) => setChosen(currentTarget.value)}
          data={[
            { value: '', label: 'Choose one' },
            ...earlier.map((value) => ({ value, label: `Version ${value}` })),
          ]}
        />
        {chosen !== '' && <Earlier {...o} key={chosen} chosen={chosen} />}
      </Stack>
    </Panel>
  );
}

function Earlier(o: Parameters<typeof Versions>[0] & { readonly chosen: string }) {
  const query = useQuery(
    ReturnsService.method.getPolicy,
    { version: BigInt(o.chosen) },
    { staleTime: Infinity },
  );
  return (
    <Loaded query={query} rows={2}>
      {({ policy, updatedAt }) => {
        const draft = draftOf(policy);
        return (
          <Stack gap="sm">
            <Text size="sm">
              Version {o.chosen} was in force from <Time at={updatedAt} />.
            </Text>
            <Differences of={draft} from={o.present} currency={o.currency} />
            {o.onUse && (
              <Group>
                <Button size="xs" variant="default" onClick={() => o.onUse?.(draft)}>
                  Edit it as a draft
                </Button>
              </Group>
            )}
          </Stack>
        );
      }}
    </Loaded>
  );
}

/** The parts of a policy that another one does not have, as sentences. */
export function Differences(o: {
  readonly of: Draft;
  readonly from: Draft;
  readonly currency: string;
}) {
  const parts = changedParts(o.of, o.from);
  if (parts.length === 0) return <Text size="sm">It says the same.</Text>;
  return (
    <dl>
      {parts.map((part) => (
        <div key={part}>
          <dt>
            <Text size="sm" fw={600}>
              {PART_TITLES[part]}
            </Text>
          </dt>
          <dd style={{ margin: '0 0 0.5rem' }}>
            <Sentences part={part} draft={o.of} currency={o.currency} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
