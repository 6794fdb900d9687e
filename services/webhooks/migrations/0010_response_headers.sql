-- fits: 0.1.0
-- Headers of the response, as JSON: a bounded number, without values that may be credentials. Empty without a response.
alter table attempts add column response_headers text not null default '';
-- Not validated: all rows have the default, and a scan of the log would block the recording of results.
alter table attempts add constraint attempts_response_headers check (octet_length(response_headers) <= 2048) not valid;
