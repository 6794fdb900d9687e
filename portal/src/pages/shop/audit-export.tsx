import type { MessageInitShape } from '@bufbuild/protobuf';
// biome-ignore lint/style/noRestrictedImports: it only reads.
import { callUnaryMethod, useTransport } from '@connectrpc/connect-query';
import { Button } from '@mantine/core';
import { useState } from 'react';
import {
  type AuditFilterSchema,
  AuditService,
} from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { localDay } from '../../api/dates.ts';
import { ActionMenu } from '../../parts/action-menu.tsx';
import { now } from '../../parts/clock.ts';
import { notifyDone, notifyFailure } from '../../parts/notify.ts';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';

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
export function ExportMenu({
  filter,
}: {
  readonly filter: MessageInitShape<typeof AuditFilterSchema>;
}) {
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
