// Receives webhooks and verifies them (Standard Webhooks). Go 1.19 or newer, no modules:
//
//	WEBHOOK_SECRET=whsec_… PORT=8000 go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tolerance = 5 * time.Minute // An older request may be a copy that somebody recorded and sends again.
	maxBody   = 32 << 20        // Bytes. The details of a large return have up to 24 MiB.
	maxIDs    = 100_000
)

// Lost at a restart. In production store the id (unique) and the event in a table before you respond.
var seen, mutex = map[string]bool{}, sync.Mutex{}

func isGenuine(key []byte, headers http.Header, body []byte) bool {
	id, sentAt := headers.Get("webhook-id"), headers.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(sentAt, 10, 40)
	if id == "" || err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	// The bytes as they came: JSON that was parsed and written again has another signature.
	fmt.Fprintf(mac, "%s.%s.%s", id, sentAt, body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	// While a secret rotates, the header has a signature of each secret. One match is enough.
	for _, one := range strings.Split(headers.Get("webhook-signature"), " ") {
		// Constant time: how long a comparison takes must not show how much of a guess is right.
		if hmac.Equal([]byte(one), []byte(expected)) {
			return true
		}
	}
	return false
}

func isNew(id string) bool {
	mutex.Lock()
	defer mutex.Unlock()
	if seen[id] {
		return false
	}
	if len(seen) >= maxIDs {
		seen = map[string]bool{}
	}
	seen[id] = true
	return true
}

func main() {
	// The key is what the text after the prefix encodes, not the text.
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		panic("WEBHOOK_SECRET must be the secret of the webhook: whsec_…")
	}
	receive := func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
		if err != nil || !isGenuine(key, request.Header, body) {
			response.WriteHeader(http.StatusUnauthorized)
			return
		}
		// Respond, then work: after 15 seconds the sender gives up and sends it again. A repeat gets 2xx, too.
		response.WriteHeader(http.StatusNoContent)
		if id := request.Header.Get("webhook-id"); isNew(id) {
			kind := ""
			if request.Header.Get("x-service-test") == "true" {
				kind = "test " // The data of a test event is a sample: its return does not exist.
			}
			go fmt.Printf("%s %s%s\n", id, kind, body)
		}
	}
	server := http.Server{Addr: ":" + os.Getenv("PORT"), Handler: http.HandlerFunc(receive), ReadTimeout: 30 * time.Second}
	fmt.Println("ready")
	panic(server.ListenAndServe())
}
