import { Badge, Group, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import type { AuditChange, AuditEntry } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import type { Column } from '../../parts/data-table.tsx';
import { Fold } from '../../parts/fold.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { LongText } from '../../parts/long-text.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { inWords, roleName } from '../../words.ts';
import styles from './audit-entry.module.css';

const WebhookDescription = lazyPart(
  async () => (await import('../webhooks/description.tsx')).WebhookDescription,
);

// While they are loaded, a text of one line stands in their place.
const Reason = lazy(async () => ({ default: (await import('./audit-reason.tsx')).Reason }));
const AssistantLink = lazy(async () => ({
  default: (await import('./assistant-link.tsx')).AssistantLink,
}));

const route = getRouteApi('/audit-log');

/**
 * One row for everything that one action wrote. A call has an entry before it and one after it, and some changes have
 * one of their own with the same request. The export has them all.
 */
export function shownEntries(entries: readonly AuditEntry[]): AuditEntry[] {
  const ended = new Set(entries.filter(({ outcome }) => isEnd(outcome)).map(({ call }) => call));
  const facts = new Set(
    entries
      .filter(({ call, requestId }) => call === '' && requestId !== '')
      .map(({ requestId }) => requestId),
  );
  return entries.filter(({ call, outcome, requestId }) => {
    if (call === '') return true;
    if (outcome === 'asked' && ended.has(call)) return false;
    return !(facts.has(requestId) && (outcome === 'asked' || outcome === 'done'));
  });
}

function isEnd(outcome: string): boolean {
  return outcome !== '' && outcome !== 'asked';
}

export const AUDIT_COLUMNS: readonly Column<AuditEntry>[] = [
  { title: 'When', short: true, cell: ({ at }) => <Time at={at} as="exact" /> },
  { title: 'Who', roomy: true, cell: (entry) => <Who entry={entry} /> },
  { title: 'What', roomy: true, cell: (entry) => <What entry={entry} /> },
  { title: 'Changed', roomy: true, cell: ({ changes }) => <Changes changes={changes} /> },
  {
    title: 'Through',
    cell: (entry) => (
      <>
        <Through entry={entry} />
        <SecondLine>{entry.source}</SecondLine>
      </>
    ),
  },
];

/** By which way. An assistant has a link to its connection. */
function Through({ entry }: { readonly entry: AuditEntry }) {
  const { action, through } = entry;
  if (!action.startsWith('mcp.')) return <span>{through}</span>;
  return (
    <span className={styles.object ?? ''}>
      <Suspense fallback={through}>
        <AssistantLink entry={entry} />
      </Suspense>
    </span>
  );
}

const KINDS: Readonly<Record<string, string>> = {
  user: 'User',
  api_key: 'API key',
  partner_app: 'Partner app',
  service: 'Service',
  system: 'Operator',
};

/** The name filters the log. */
function Who({ entry: { by, byEmail } }: { readonly entry: AuditEntry }) {
  if (!by) return <>–</>;
  const { kind, id, name } = by;
  const second =
    byEmail !== '' && byEmail !== name ? byEmail : `${KINDS[kind] ?? inWords(kind)} ${id}`;
  return (
    <div className={styles.who}>
      <route.Link
        to="."
        search={(search) => ({ ...search, actor: id })}
        replace
        title="Show only what was done by them"
      >
        {name || byEmail || id}
      </route.Link>
      <SecondLine>
        <LongText text={second} />
      </SecondLine>
    </div>
  );
}

const OUTCOMES: Readonly<Record<string, readonly [string, string]>> = {
  refused: ['Refused, nothing changed', 'gray'],
  unknown: ['Result unknown', 'yellow'],
  asked: ['Result unknown', 'yellow'],
};

function What({ entry }: { readonly entry: AuditEntry }) {
  const { what, action, outcome } = entry;
  const [text, color = 'gray'] = OUTCOMES[outcome] ?? [];
  return (
    <>
      <Group gap={6}>
        <span title={action}>{what}</span>
        {text !== undefined && (
          <Badge color={color} variant="light" tt="none" fw={600} miw="max-content">
            {text}
          </Badge>
        )}
      </Group>
      <Text size="xs" c="dimmed" component="div" className={styles.object ?? ''}>
        <ObjectOf entry={entry} />
      </Text>
      {/\.(cancel|flag|unflag)_return$/.test(action) && outcome !== 'refused' && (
        <ReasonFold entry={entry} />
      )}
    </>
  );
}

/** The reason of an action, which is read only when it is shown: at once where the log has entries of one return. */
function ReasonFold({ entry }: { readonly entry: AuditEntry }) {
  const { canCall } = useSession();
  const [isOpen, setOpen] = useState(route.useSearch().return !== undefined);
  if (!canCall('ReturnsService/ListTimeline')) return null;
  return (
    <Fold title="Reason" open={isOpen} onToggle={setOpen}>
      {isOpen && (
        <Suspense fallback="…">
          <Reason entry={entry} />
        </Suspense>
      )}
    </Fold>
  );
}

/** The object, with a link to its page if it has one. */
function ObjectOf({ entry }: { readonly entry: AuditEntry }) {
  const { objectKind, subject } = entry;
  const text = objectText(entry);
  const [id = ''] = subject.split(' ');
  if (objectKind === 'return')
    return (
      <Link to="/returns/$returnId" params={{ returnId: id }}>
        {text}
      </Link>
    );
  if (objectKind === 'webhook')
    return (
      <Link to="/webhooks/$webhookId" params={{ webhookId: id }}>
        {text}
        <WebhookDescription id={id} />
      </Link>
    );
  return <>{text}</>;
}

function objectText({ objectKind, objectName, subject }: AuditEntry): string {
  if (objectKind === '') return '';
  if (objectName !== '' && (objectKind === 'member' || objectKind === 'assistant')) {
    return objectName;
  }
  const text = `${objectKind === 'key' ? 'API key' : inWords(objectKind)} ${subject}`;
  return objectName === '' ? text : `${text}, ${objectName}`;
}

/** The names of fields that the API calls otherwise than people do. */
const FIELDS: Readonly<Record<string, string>> = {
  url: 'Address',
  overlap_hours: 'The former one works, in hours',
  replaced_by: 'Replaced by',
};

function Changes({ changes }: { readonly changes: readonly AuditChange[] }) {
  if (changes.length === 0) return <>–</>;
  return (
    <>
      {changes.map(({ field, from, to }) => (
        <div key={field}>
          <Text span size="xs" c="dimmed">
            {FIELDS[field] ?? inWords(field)}:{' '}
          </Text>
          {from !== '' && (
            <>
              <s>{valueText(field, from)}</s> <span aria-hidden>→ </span>
              <span className="visually-hidden">now </span>
            </>
          )}
          {valueText(field, to) || 'none'}
        </div>
      ))}
    </>
  );
}

function valueText(field: string, value: string): string {
  return field === 'role' && value !== '' ? roleName(value) : value;
}
