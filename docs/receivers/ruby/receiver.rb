# Receives webhooks and verifies them (Standard Webhooks). Ruby 3.0 or newer, with its web server (gem install webrick):
#   WEBHOOK_SECRET=whsec_… PORT=8000 ruby receiver.rb
require 'json'
require 'openssl'
require 'webrick'

TOLERANCE_S = 300 # An older request may be a copy that somebody recorded and sends again.
MAX_BODY = 32 * 1024 * 1024 # Bytes. The details of a large return have up to 24 MiB.
MAX_IDS = 100_000

# The key is what the text after the prefix encodes, not the text.
KEY = ENV.fetch('WEBHOOK_SECRET', '').delete_prefix('whsec_').unpack1('m')
abort 'WEBHOOK_SECRET must be the secret of the webhook: whsec_…' if KEY.empty?

# Lost at a restart. In production store the id (unique) and the event in a table before you respond.
SEEN = {}
LOCK = Mutex.new
PRINTING = Mutex.new

def genuine?(request, body)
  id, time, signatures = %w[id timestamp signature].map { |name| request["webhook-#{name}"].to_s }
  return false if id.empty? || !time.match?(/\A\d{1,12}\z/) || (Time.now.to_i - time.to_i).abs > TOLERANCE_S

  # The bytes as they came: JSON that was parsed and written again has another signature.
  mac = OpenSSL::HMAC.digest('SHA256', KEY, "#{id}.#{time}.".b + body.b)
  expected = "v1,#{[mac].pack('m0')}"
  # While a secret rotates, the header has a signature of each secret. One match is enough.
  # Constant time: how long a comparison takes must not show how much of a guess is right.
  signatures.split(' ').any? { |one| OpenSSL.secure_compare(one, expected) }
end

def new?(id)
  LOCK.synchronize do
    next false if SEEN.key?(id)

    SEEN[id] = true
    SEEN.shift if SEEN.size > MAX_IDS # the oldest
    true
  end
end

# The data of a test event is a sample: its return does not exist.
def handle(id, event, is_test)
  # Threads would mix their lines.
  PRINTING.synchronize { puts "#{id} #{'test ' if is_test}#{event['trigger']} #{JSON.generate(event)}\n" }
end

$stdout.sync = true
server = WEBrick::HTTPServer.new(Port: ENV.fetch('PORT', 8000).to_i, AccessLog: [],
                                 Logger: WEBrick::Log.new(nil, 0), StartCallback: -> { puts 'ready' })
server.mount_proc('/') do |request, response|
  body = request['content-length'].to_i > MAX_BODY ? '' : request.body.to_s
  genuine = genuine?(request, body)
  # Respond, then work: after 15 seconds the sender gives up and sends it again. A repeat gets 2xx, too.
  response.status = genuine ? 204 : 401
  id = request['webhook-id']
  is_test = request['x-service-test'] == 'true'
  Thread.new { handle(id, JSON.parse(body), is_test) } if genuine && new?(id)
end
trap('TERM') { server.shutdown }
server.start
