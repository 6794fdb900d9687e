import { useQuery } from '@connectrpc/connect-query';
import { Box, NativeSelect, Stack } from '@mantine/core';
import { Fragment, useState } from 'react';
import {
  type ListRolesResponse,
  type RoleAction,
  TeamService,
} from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { Facts } from '../../parts/facts.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { useSession } from '../../session/session.tsx';
import { roleName } from '../../words.ts';
import styles from './role-table.module.css';

/** Narrower pages are those of phones. CSS pixels. */
const PHONE_PX = 640;

/** What each role may do, and by which ways: in the portal, by the REST API, and by an assistant. */
export function RoleTable() {
  const query = useQuery(TeamService.method.listRoles, {}, { staleTime: Infinity });
  return (
    <Panel
      title="What each role may do"
      about={
        <>
          The last column says by which way it can be done.
          <Meanings of={['REST', 'MCP', 'Scope']} />
        </>
      }
    >
      <Loaded query={query} rows={12}>
        {(found) => <Body found={found} />}
      </Loaded>
    </Panel>
  );
}

function Body({ found }: { readonly found: ListRolesResponse }) {
  const { shop } = useSession();
  // A phone has room for one role: at first the reader's own.
  const [only, setOnly] = useState(() => (window.innerWidth < PHONE_PX ? shop.role : ''));
  const frame = only === '' ? styles.scroll : `${styles.scroll} ${styles.fits}`;
  const roles = found.roles.filter(({ name }) => only === '' || name === only);
  const groups = [...new Set(found.actions.map(({ group }) => group))];
  return (
    <Stack gap="md">
      <NativeSelect
        label="Show"
        maw="18rem"
        value={only}
        onChange={({ currentTarget }) => setOnly(currentTarget.value)}
        data={[
          { value: '', label: 'All roles' },
          ...found.roles.map(({ name }) => ({ value: name, label: roleName(name) })),
        ]}
      />
      <Box maw="48rem">
        <Facts rows={roles.map(({ name, description }) => [roleName(name), description])} />
      </Box>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it. */}
      <section className={frame} tabIndex={0} aria-label="Table of roles">
        <table className={styles.table}>
          <thead>
            <tr>
              <th scope="col" className={styles.first}>
                Action
              </th>
              {roles.map(({ name }) => (
                <th key={name} scope="col" className={styles.middle}>
                  {roleName(name)}
                  {name === shop.role && <SecondLine>you</SecondLine>}
                </th>
              ))}
              <th scope="col">By</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <Fragment key={group}>
                <tr>
                  <th scope="rowgroup" colSpan={roles.length + 2} className={styles.group}>
                    {group}
                  </th>
                </tr>
                {found.actions
                  .filter((action) => action.group === group)
                  .map((action) => (
                    <Row
                      key={action.description}
                      action={action}
                      roles={roles.map(({ name }) => name)}
                    />
                  ))}
              </Fragment>
            ))}
          </tbody>
        </table>
      </section>
    </Stack>
  );
}

function Row({
  action,
  roles,
}: {
  readonly action: RoleAction;
  readonly roles: readonly string[];
}) {
  const { description, portal, rest, mcp, scope } = action;
  const restTitle = scope === '' ? rest.join(', ') : `${rest.join(', ')}: scope ${scope}`;
  return (
    <tr>
      <th scope="row" className={styles.first}>
        {description}
      </th>
      {roles.map((role) => (
        <td key={role} className={styles.middle}>
          {action.roles.includes(role) ? (
            <>
              <span aria-hidden className={styles.yes}>
                ✓
              </span>
              <span className="visually-hidden">yes</span>
            </>
          ) : (
            <>
              <span aria-hidden className={styles.no}>
                –
              </span>
              <span className="visually-hidden">no</span>
            </>
          )}
        </td>
      ))}
      <td className={styles.ways}>
        {portal.length > 0 && <span>Portal</span>}
        {rest.length > 0 && <span title={restTitle}>REST</span>}
        {mcp.length > 0 && <span title={mcp.join(', ')}>MCP</span>}
      </td>
    </tr>
  );
}
