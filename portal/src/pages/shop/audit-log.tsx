import type { MessageInitShape } from '@bufbuild/protobuf';
// biome-ignore lint/style/noRestrictedImports: the export only reads.
import { callUnaryMethod, useInfiniteQuery, useTransport } from '@connectrpc/connect-query';
import { Badge, Button, Group, Stack, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import {
  type AuditChange,
  type AuditEntry,
  type AuditFilterSchema,
  AuditService,
} from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { dayEnd, dayStart, localDay } from '../../api/dates.ts';
import { PAGES } from '../../api/pages.ts';
import { ActionMenu } from '../../parts/action-menu.tsx';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Fold } from '../../parts/fold.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { More } from '../../parts/more.tsx';
import { notifyDone, notifyFailure } from '../../parts/notify.ts';
import { PageHead } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { now } from '../../parts/time/clock.ts';
import { Time } from '../../parts/time/time.tsx';
import { UnreadFilterState } from '../../parts/unread-filter.tsx';
import { filterId, unreadFilter } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { count, inWords, roleName } from '../../words.ts';
import styles from './audit-log.module.css';

const AuditFilters = lazyPart(async () => (await import('./audit-filters.tsx')).AuditFilters, 2);
const NoEntries = lazyPart(async () => (await import('./audit-filters.tsx')).NoEntries);

const WebhookDescription = lazyPart(
  async () => (await import('./audit-lookups.tsx')).WebhookDescription,
);

// While they are loaded, a text of one line stands in their place.
const Reason = lazy(async () => ({ default: (await import('./audit-lookups.tsx')).Reason }));
const AssistantLink = lazy(async () => ({
  default: (await import('./audit-lookups.tsx')).AssistantLink,
}));

const route = getRouteApi('/audit-log');

export function AuditLogPage() {
  const search = route.useSearch();
  const [from, to] = [dayStart(search.from), dayEnd(search.to)];
  const filter = {
    text: search.q ?? '',
    actorId: search.actor ?? '',
    action: search.action ?? '',
    thing: search.thing ?? '',
    returnId: filterId(search.return),
    ...(from && { from }),
    ...(to && { to }),
  };
  const unread = unreadFilter(search, dayStart);
  return (
    <>
      <PageHead
        title="Audit log"
        about="Who changed what, by the portal, the API, an assistant or the operator. Entries are kept for 13 months, and nobody can change them."
        actions={!unread && <ExportMenu filter={filter} />}
      />
      <AuditFilters />
      {unread ? <UnreadFilterState of={unread} /> : <Results filter={filter} />}
    </>
  );
}

function Results({ filter }: { readonly filter: { readonly text: string } }) {
  const pages = useInfiniteQuery(
    AuditService.method.listAuditEntries,
    { filter, pageSize: 100, cursor: '' },
    PAGES,
  );
  return (
    <Loaded query={pages} rows={12}>
      {(data) => {
        const entries = shownEntries(data.pages.flatMap((page) => page.entries));
        if (entries.length === 0 && !pages.hasNextPage) {
          return <NoEntries />;
        }
        return (
          <Stack gap={0}>
            {entries.length > 0 && (
              <DataTable
                caption="Audit log"
                columns={COLUMNS}
                rows={entries}
                rowKey={({ id }) => id}
              />
            )}
            {filter.text !== '' && pages.hasNextPage && (
              <Text size="sm" c="dimmed" mt="md" ta="center" role="status">
                Searched back to <Time at={data.pages.at(-1)?.readTo} />.
              </Text>
            )}
            <More pages={pages} shown="These are all entries that match." />
          </Stack>
        );
      }}
    </Loaded>
  );
}

/**
 * One row for everything that one action wrote. Some changes have an entry of their own with the same request as the
 * call, and gateways of 1.0.0 also wrote an entry before each call. The export has them all.
 */
function shownEntries(entries: readonly AuditEntry[]): AuditEntry[] {
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

const COLUMNS: readonly Column<AuditEntry>[] = [
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
  const { what, act, action, outcome } = entry;
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
      {/^(cancel|flag|unflag)_return$/.test(act) && outcome !== 'refused' && (
        <ReasonFold entry={entry} />
      )}
    </>
  );
}

/** The reason of an action, which is read only when it is shown: at once where the log has entries of one return. */
function ReasonFold({ entry }: { readonly entry: AuditEntry }) {
  const { canCall } = useSession();
  const [isOpen, setOpen] = useState(route.useSearch().return !== undefined);
  if (!canCall('ReturnsService/GetTimeline')) return null;
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

interface Format {
  readonly name: 'csv' | 'json';
  readonly type: string;
  /** The file. @param lines the lines of all calls. */
  file(lines: string): string;
}

const CSV: Format = {
  name: 'csv',
  type: 'text/csv;charset=utf-8',
  // With a byte order mark, because spreadsheets otherwise read UTF-8 as another encoding.
  file: (lines) => `\u{feff}${lines}`,
};
const JSON_FILE: Format = {
  name: 'json',
  type: 'application/json',
  file: (lines) => {
    const objects = lines.split('\n').filter((line) => line !== '');
    return `[\n${objects.join(',\n')}\n]\n`;
  },
};

/** Puts all entries of the filters into one file. */
function ExportMenu({ filter }: { readonly filter: MessageInitShape<typeof AuditFilterSchema> }) {
  const { can, shop } = useSession();
  const transport = useTransport();
  const [isPending, setPending] = useState(false);
  const { exportAuditEntries } = AuditService.method;
  if (!can(exportAuditEntries)) return null;

  const run = async (format: Format) => {
    setPending(true);
    try {
      const parts: string[] = [];
      let [cursor, entries] = ['', 0];
      do {
        const request = { filter, cursor, format: format.name };
        const page = await callUnaryMethod(transport, exportAuditEntries, request);
        parts.push(page.csv, page.jsonLines);
        entries += page.entries;
        cursor = page.nextCursor;
      } while (cursor !== '');
      const name = `audit-log-${shop.id}-${localDay(new Date(now()))}.${format.name}`;
      save(name, format.file(parts.join('')), format.type);
      notifyDone(`The file has ${count(entries, 'entry', 'entries')}.`);
    } catch (error) {
      notifyFailure(error);
    } finally {
      setPending(false);
    }
  };
  if (isPending)
    return (
      <Button variant="default" loading>
        Export
      </Button>
    );
  return (
    <ActionMenu
      label="Export"
      actions={[
        { key: 'csv', title: 'As CSV, for a spreadsheet', run: () => void run(CSV) },
        { key: 'json', title: 'As JSON, for a program', run: () => void run(JSON_FILE) },
      ]}
    />
  );
}

/** Saves a file from memory, as a download does. */
function save(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
