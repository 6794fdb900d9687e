<?php
// Receives webhooks and verifies them (Standard Webhooks). PHP 8.0 or newer, no packages. The details of a large return
// have up to 24 MiB, so PHP's limit of 8 MiB is raised:
//   WEBHOOK_SECRET=whsec_… php -d post_max_size=32M -S 127.0.0.1:8000 receiver.php
declare(strict_types=1);

const TOLERANCE_S = 300; // An older request may be a copy that somebody recorded and sends again.

function is_genuine(string $key, string $body): bool
{
    $id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
    $time = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if ($id === '' || preg_match('/^\d{1,12}$/D', $time) !== 1 || abs(time() - (int) $time) > TOLERANCE_S) {
        return false;
    }
    // The bytes as they came: JSON that was parsed and written again has another signature.
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$time.$body", $key, true));
    // While a secret rotates, the header has a signature of each secret. One match is enough.
    foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $one) {
        // Constant time: how long a comparison takes must not show how much of a guess is right.
        if (hash_equals($expected, $one)) {
            return true;
        }
    }
    return false;
}

// A file for each id, because PHP forgets everything between requests. Mode x creates it only if there is none, so two
// requests at once count as one. In production store the id (unique) and the event in a table before you respond.
function is_new(string $id): bool
{
    $folder = getenv('WEBHOOK_IDS') ?: sys_get_temp_dir() . '/webhook-ids';
    is_dir($folder) || @mkdir($folder, 0700, true);
    $file = "$folder/" . hash('sha256', $id);
    // If the file cannot be written, the event counts as new: better twice than never.
    return @fopen($file, 'x') !== false || !is_file($file);
}

// The data of a test event is a sample: its return does not exist.
function handle(string $id, array $event, bool $isTest): void
{
    $kind = $isTest ? 'test ' : '';
    file_put_contents('php://stdout', "$id $kind{$event['trigger']} " . json_encode($event) . "\n");
}

// The key is what the text after the prefix encodes, not the text.
$key = (string) base64_decode(preg_replace('/^whsec_/', '', (string) getenv('WEBHOOK_SECRET')), true);
if ($key === '') {
    http_response_code(500); // With an empty key everybody could sign.
    exit('WEBHOOK_SECRET must be the secret of the webhook: whsec_…');
}
$body = (string) file_get_contents('php://input');
if (!is_genuine($key, $body)) {
    http_response_code(401);
    exit;
}
// Respond within 15 seconds, or the sender sends it again: leave long work to a queue. A repeat gets 2xx, too.
http_response_code(204);
if (is_new($_SERVER['HTTP_WEBHOOK_ID'])) {
    $isTest = ($_SERVER['HTTP_X_SERVICE_TEST'] ?? '') === 'true';
    handle($_SERVER['HTTP_WEBHOOK_ID'], json_decode($body, true), $isTest);
}
