import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { type FormEvent, useRef, useState } from 'react';
import type { GetPolicyResponse } from '../../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Unsaved } from '../../parts/dialog/unsaved.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { changedParts, type Draft, draftOf, merged, policyOf, problemIn } from './draft.ts';
import { Editor } from './editor.tsx';
import styles from './policy.module.css';
import { Preview } from './preview.tsx';
import { PART_TITLES } from './sentences.ts';
import { Differences, Versions } from './versions.tsx';

/** What the reader edits: the version that it began from, and the draft. */
interface Editing {
  readonly version: bigint;
  readonly base: Draft;
  readonly draft: Draft;
}

/** The rules with their fields, the preview beside them, and the earlier versions. */
export function PolicyForm({
  found,
  currency,
}: {
  readonly found: GetPolicyResponse;
  readonly currency: string;
}) {
  const { can } = useSession();
  const { updatePolicy, previewPolicy } = ReturnsService.method;
  const mayChange = can(updatePolicy);
  const stored = draftOf(found.policy);
  const [editing, setEditing] = useState<Editing>(() => begun(found));
  const { version, base, draft } = editing;
  const isDirty = changedParts(draft, base).length > 0;
  const isNewer = found.version > version;
  const [problem, setProblem] = useState<ReturnType<typeof problemIn>>();
  // Nothing of the reader's is lost: there is no draft, or it is what was saved.
  if (isNewer && (!isDirty || changedParts(draft, stored).length === 0)) setEditing(begun(found));
  const { run, isPending } = useWrite(updatePolicy, {
    done: 'The policy is saved.',
    onSuccess: (saved) => {
      const now = draftOf(saved.policy);
      setEditing({ version: saved.version, base: now, draft: now });
    },
  });
  const form = useRef<HTMLFormElement>(null);
  const isValid = () => {
    if (!form.current?.reportValidity()) return false;
    const found = problemIn(draft);
    setProblem(found);
    return found === undefined;
  };
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (isValid()) run({ policy: policyOf(draft), expectedVersion: version });
  };
  const isOvertaken = isDirty && isNewer;
  return (
    <>
      <div className={styles.columns}>
        <form ref={form} onSubmit={save} onInvalidCapture={openFold} data-unsaved={isDirty}>
          <Stack gap="md">
            <InForce found={found} />
            {isOvertaken && (
              <Overtaken
                editing={editing}
                found={found}
                currency={currency}
                onChange={setEditing}
              />
            )}
            <fieldset className={styles.form} disabled={isPending}>
              <Editor
                draft={draft}
                currency={currency}
                change={
                  mayChange
                    ? (part, value) =>
                        setEditing({ ...editing, draft: { ...draft, [part]: value } })
                    : undefined
                }
              />
            </fieldset>
            {problem && (
              <Alert color="red" role="alert" title={PART_TITLES[problem[0]]}>
                {problem[1]}
              </Alert>
            )}
            {mayChange && (
              <Group>
                <Button type="submit" loading={isPending} disabled={!isDirty || isOvertaken}>
                  Save as a new version
                </Button>
                <Button
                  variant="default"
                  disabled={!isDirty || isPending}
                  onClick={() => setEditing(begun(found))}
                >
                  Discard
                </Button>
              </Group>
            )}
          </Stack>
        </form>
        <Stack gap="md" className={styles.beside ?? ''}>
          {can(previewPolicy) && <Preview draft={draft} isValid={isValid} />}
          <Versions
            version={found.version}
            present={stored}
            currency={currency}
            onUse={mayChange ? (earlier) => setEditing({ ...editing, draft: earlier }) : undefined}
          />
        </Stack>
      </div>
      <Unsaved when={isDirty} />
    </>
  );
}

/** The browser shows what is wrong with a field only when the field is shown. */
function openFold({ target }: FormEvent): void {
  if (!(target instanceof Element)) return;
  for (let fold = target.closest('details'); fold; ) {
    fold.open = true;
    fold = fold.parentElement?.closest('details') ?? null;
  }
}

function begun({ policy, version }: GetPolicyResponse): Editing {
  const base = draftOf(policy);
  return { version, base, draft: base };
}

function InForce({ found: { version, updatedAt } }: { readonly found: GetPolicyResponse }) {
  return (
    <Text size="sm" c="dimmed">
      {version === 0n ? (
        'Your shop has no policy yet: everything is allowed.'
      ) : (
        <>
          Version {String(version)} is in force since <Time at={updatedAt} />.
        </>
      )}
    </Text>
  );
}

/** What a colleague saved while the reader edited, and how to go on. Nothing is overwritten before the reader has seen it. */
function Overtaken(o: {
  readonly editing: Editing;
  readonly found: GetPolicyResponse;
  readonly currency: string;
  readonly onChange: (editing: Editing) => void;
}) {
  const { base, draft: mine } = o.editing;
  const theirs = draftOf(o.found.policy);
  const { draft, both } = merged({ base, mine, theirs });
  const titles = both.map((part) => `“${PART_TITLES[part]}”`).join(', ');
  return (
    <Alert
      color="yellow"
      role="alert"
      title={`A colleague saved version ${o.found.version} while you edited`}
    >
      <Stack gap="sm" align="flex-start">
        <Text size="sm">
          Your changes are not lost, and not saved. Version {String(o.found.version)} says:
        </Text>
        <Differences of={theirs} from={base} currency={o.currency} />
        {both.length > 0 && (
          <Text size="sm">You both changed {titles}. If you go on, yours replaces it.</Text>
        )}
        <Group gap="xs">
          <Button
            size="xs"
            variant="default"
            onClick={() => o.onChange({ version: o.found.version, base: theirs, draft })}
          >
            Go on with both changes
          </Button>
          <Button size="xs" variant="default" onClick={() => o.onChange(begun(o.found))}>
            Drop mine
          </Button>
        </Group>
      </Stack>
    </Alert>
  );
}
