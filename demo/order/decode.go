package order

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
)

// MaxBodyBytes is the largest request body that the API reads.
const MaxBodyBytes = 64 << 10

// decode reads the body, one JSON object with exactly these members, into the struct that into points to, or answers with
// a problem and returns false.
func decode(c *gin.Context, into any, members ...string) bool {
	if !isJSON(c.Request.Header) {
		abort(c, http.StatusUnsupportedMediaType, "media-type", fmt.Sprintf("the body must be application/json in UTF-8 without a content encoding, got %q", c.GetHeader("Content-Type")))
		return false
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		abort(c, http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("the body must be at most %d bytes", MaxBodyBytes))
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		abort(c, http.StatusRequestTimeout, "timeout", "the body did not come in time")
		return false
	case err != nil:
		abort(c, http.StatusBadRequest, "json", "the body ended before its end")
		return false
	}
	if err := checkObject(body, members); err != nil {
		abort(c, http.StatusBadRequest, "json", err.Error())
		return false
	}
	if err := json.Unmarshal(body, into); err != nil {
		abort(c, http.StatusBadRequest, "json", describe(err))
		return false
	}
	return true
}

func isJSON(header http.Header) bool {
	media, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	charset := parameters["charset"]
	return err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8")) &&
		header.Get("Content-Encoding") == ""
}

// checkObject refuses what encoding/json lets through: members that are there twice, in another case, null or missing,
// and text that is not UTF-8.
func checkObject(body []byte, members []string) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return errors.New("the body is empty")
	}
	if !utf8.Valid(body) {
		return errors.New("the body is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return errors.New("the body must be a JSON object")
	}
	var seen []string
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return errors.New(describe(err))
		}
		name, _ := token.(string) // the name of a member is one
		if !slices.Contains(members, name) {
			return fmt.Errorf("unknown member %q, there are %s", name, strings.Join(members, ", "))
		}
		if slices.Contains(seen, name) {
			return fmt.Errorf("the member %q is there twice", name)
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return errors.New(describe(err))
		}
		if string(value) == "null" {
			return fmt.Errorf("the member %q must not be null", name)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return errors.New(describe(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON object")
	}
	for _, name := range members {
		if !slices.Contains(seen, name) {
			return fmt.Errorf("the member %q is missing", name)
		}
	}
	return nil
}

// describe says what is wrong with the JSON without naming Go's types.
func describe(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Type.Kind().String() == "int64":
		return fmt.Sprintf("%s must be a whole number, got %s", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return fmt.Sprintf("%s must be a text, got %s", kind.Field, kind.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON ends in the middle"
	default:
		return err.Error()
	}
}
