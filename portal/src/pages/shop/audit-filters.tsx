import { useQuery } from '@connectrpc/connect-query';
import { Button, Group } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import {
  AuditService,
  type ListAuditChoicesResponse,
} from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import {
  DateFilter,
  FilterBar,
  SelectFilter,
  TextFilter,
  useFilters,
} from '../../parts/filters.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { inWords } from '../../words.ts';

const route = getRouteApi('/audit-log');
const NAMES = ['q', 'return', 'actor', 'thing', 'action', 'from', 'to'] as const;
type Name = (typeof NAMES)[number];
type Options = readonly (readonly [string, string])[];

/** The names of the filters. */
const TITLES = {
  q: 'Search',
  return: 'Return',
  actor: 'Person or key',
  thing: 'Thing',
  action: 'Action',
  from: 'From',
  to: 'Until',
} as const satisfies Record<Name, string>;

/** The filters of the log. Each is a part of the address. */
export function AuditFilters() {
  const { actors, things, actions } = useOptions();
  const { filter: of, onClear } = useFilters();
  const filter = (name: Name) => ({ label: TITLES[name], ...of(name) });
  return (
    <FilterBar
      onClear={onClear}
      help="The search finds a whole order name such as #1001, or a part of the name or e-mail address of a person, of the name of an API key, of an id, of an IP address, of what was done, or of a value that was changed."
    >
      <TextFilter placeholder="order, name, e-mail, id or value" width={260} {...filter('q')} />
      <TextFilter placeholder="id" width={100} {...filter('return')} />
      <SelectFilter all="Everybody" options={actors} {...filter('actor')} />
      <SelectFilter all="All things" options={things} {...filter('thing')} />
      <SelectFilter all="All actions" options={actions} {...filter('action')} />
      <DateFilter {...filter('from')} />
      <DateFilter {...filter('to')} />
    </FilterBar>
  );
}

/** Says which filters there are, each with a button that removes it. */
export function NoEntries() {
  const search = route.useSearch();
  const { actors: actor, things: thing, actions: action } = useOptions();
  const known: Partial<Record<Name, Options>> = { actor, thing, action };
  const { filter } = useFilters();
  const set = NAMES.filter((name) => search[name] !== undefined);
  const textOf = (name: Name) => {
    const value = search[name] ?? '';
    const options = known[name] ?? [];
    return options.find(([one]) => one === value)?.[1] ?? value;
  };
  if (set.length === 0) {
    return (
      <EmptyState title="No entries yet">
        Every change of your shop appears here, with who made it.
      </EmptyState>
    );
  }
  return (
    <EmptyState
      title="No entry matches"
      action={
        <Group gap="xs" justify="center">
          {set.map((name) => (
            <Button
              key={name}
              size="xs"
              variant="default"
              h="auto"
              mih={30}
              // A name and an address may be wider than a phone.
              styles={{ label: { whiteSpace: 'normal' } }}
              onClick={() => filter(name).onChange('')}
            >
              Remove “{TITLES[name]}: {textOf(name)}”
            </Button>
          ))}
        </Group>
      }
    >
      {set.length === 1
        ? 'Nothing in the last 13 months fits this filter.'
        : 'Nothing in the last 13 months fits all of these filters. Remove one of them.'}
    </EmptyState>
  );
}

/** What can be chosen. A value of the address that is not offered, such as a former member, is offered, too. */
function useOptions(): { actors: Options; things: Options; actions: Options } {
  const { actor, thing, action } = route.useSearch();
  const { data } = useQuery(AuditService.method.listAuditChoices, {}, { staleTime: 60_000 });
  return {
    actors: withValue(data?.actors.map(actorOption) ?? [], actor),
    things: withValue(
      [...new Set(data?.actions.map((one) => one.thing))]
        .sort()
        .map((one) => [one, thingName(one)]),
      thing,
    ),
    actions: withValue(
      data?.actions
        .filter((one) => !thing || one.thing === thing)
        .map(({ name, words }) => [name, words] as const) ?? [],
      action,
    ),
  };
}

const thingName = (thing: string) => (thing === 'key' ? 'API key' : inWords(thing));

function actorOption({ id, kind, name, email }: ListAuditChoicesResponse['actors'][number]) {
  if (kind === 'api_key') return [id, `API key: ${name || id}`] as const;
  return [id, name === '' ? email : `${name}, ${email}`] as const;
}

function withValue(options: Options, value: string | undefined): Options {
  if (value === undefined || options.some(([one]) => one === value)) return options;
  return [...options, [value, inWords(value)]];
}
