import { Button, Group, NativeSelect, Paper, Text, TextInput } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { visible } from './text/visible.ts';

/** The filters of a page, each of which is a part of its address. `onClear` removes all; false while there is none. */
export function useFilters() {
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const filter = (name: keyof typeof search) => ({
    value: search[name],
    onChange: (value: string) =>
      void navigate({ to: '.', search: { ...search, [name]: value }, replace: true }),
  });
  const isFiltered = Object.keys(search).length > 0;
  return { filter, onClear: isFiltered && (() => void navigate({ to: '.', search: {} })) };
}

/** The controls above a list. @param o.onClear removes all filters; false while there is none. */
export function FilterBar(o: {
  readonly children: ReactNode;
  readonly onClear?: false | (() => void);
  /** What can be searched for. */
  readonly help?: string;
}) {
  return (
    <Paper component="search" mb="md">
      <Group gap="sm" align="flex-end">
        {o.children}
        {o.onClear && (
          <Button variant="subtle" onClick={o.onClear}>
            Clear
          </Button>
        )}
      </Group>
      {o.help && (
        <Text size="xs" c="dimmed" mt={4}>
          {o.help}
        </Text>
      )}
    </Paper>
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (value: string) => void;
}

export function SelectFilter(
  o: FieldProps & {
    readonly options: readonly (readonly [string, string])[];
    readonly all: string;
  },
) {
  const { value = '' } = o;
  // The filter of an address that is not offered, such as a webhook that was deleted.
  const unknown = value === '' || o.options.some(([one]) => one === value) ? [] : [[value, value]];
  return (
    <NativeSelect
      label={o.label}
      maw="min(100%, 18rem)"
      value={value}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      data={[['', o.all], ...unknown, ...o.options].map(([value = '', label = '']) => ({
        value,
        label,
      }))}
    />
  );
}

/** Applies a date when it is whole: while its year is typed, the year begins as 0002. */
export function DateFilter({
  type = 'date',
  ...o
}: FieldProps & { readonly type?: 'date' | 'datetime-local' }) {
  const [text, setText] = useState(o.value ?? '');
  const [isWhole, setWhole] = useState(true);
  useEffect(() => setText(o.value ?? ''), [o.value]);
  const isDay = type === 'date';
  return (
    <TextInput
      type={type}
      label={o.label}
      min={isDay ? '2000-01-01' : '2000-01-01T00:00'}
      max={isDay ? '2999-12-31' : '2999-12-31T23:59'}
      value={text}
      onChange={({ currentTarget: { value, validity } }) => {
        setText(value);
        if (validity.valid) o.onChange(value);
      }}
      onBlur={({ currentTarget }) => setWhole(currentTarget.validity.valid)}
      error={!isWhole && (isDay ? 'Type a whole date.' : 'Type a whole date and time.')}
    />
  );
}

/** Applies the text 300 ms after the last key, and at once with Enter. Leaving the field starts the time again. */
export function TextFilter(
  o: FieldProps & { readonly placeholder?: string; readonly width?: number },
) {
  const [text, setText] = useState(o.value ?? '');
  const field = useRef<HTMLInputElement>(null);
  // While the user types, the address is behind the text.
  useEffect(() => {
    if (document.activeElement !== field.current) setText(o.value ?? '');
  }, [o.value]);
  const apply = () => {
    if (visible(text) !== (o.value ?? '')) o.onChange(visible(text));
  };
  const [page] = useState(location.pathname);
  // Each render starts the time again, so that it applies with the filters of now. While another page is loaded, this
  // one is still there, and must not take the user back.
  useEffect(() => {
    const timer = setTimeout(() => location.pathname === page && apply(), 300);
    return () => clearTimeout(timer);
  });
  // A change of the rows between the press and the release of a button would lose the click.
  const [, leave] = useState<unknown>();
  return (
    <TextInput
      ref={field}
      type="search"
      label={o.label}
      placeholder={o.placeholder}
      value={text}
      w={o.width}
      maw="100%"
      onChange={({ currentTarget }) => setText(currentTarget.value)}
      onBlur={leave}
      onKeyDown={({ key }) => key === 'Enter' && apply()}
    />
  );
}
