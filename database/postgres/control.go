package postgres

import "strings"

// transactionControl returns the first command in sql that would begin or end a transaction or a savepoint, or "". Such a
// command, run as text, would part the messages from the data that they announce.
func transactionControl(sql string) string {
	for {
		sql = skipBlank(sql)
		if sql == "" {
			return ""
		}
		word, rest := firstWord(sql)
		switch word {
		case "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE":
			return word
		case "PREPARE":
			if next, _ := firstWord(skipBlank(rest)); next == "TRANSACTION" {
				return "PREPARE TRANSACTION"
			}
		}
		sql = afterStatement(rest)
	}
}

// skipBlank drops white space, semicolons and comments, which nest, before a statement.
func skipBlank(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			sql = afterLine(sql)
		case strings.HasPrefix(sql, "/*"):
			sql = afterComment(sql)
		default:
			return sql
		}
	}
}

func firstWord(sql string) (word, rest string) {
	end := 0
	for end < len(sql) && (sql[end]|0x20 >= 'a' && sql[end]|0x20 <= 'z') {
		end++
	}
	return strings.ToUpper(sql[:end]), sql[end:]
}

// afterStatement returns what follows the next semicolon that is not quoted. The body of a function and of a DO block is
// quoted; the server refuses transaction control inside them by itself.
func afterStatement(sql string) string {
	if strings.IndexByte(sql, ';') < 0 {
		return ""
	}
	for sql != "" {
		next := strings.IndexAny(sql, ";'\"$-/")
		if next < 0 {
			return ""
		}
		before := byte(' ')
		if next > 0 {
			before = sql[next-1]
		}
		mark := sql[next]
		switch sql = sql[next:]; mark {
		case ';':
			return sql[1:]
		case '\'':
			sql = afterQuote(sql[1:], '\'', before|0x20 == 'e')
		case '"':
			sql = afterQuote(sql[1:], '"', false)
		case '$':
			sql = afterDollar(sql, before)
		default:
			switch {
			case strings.HasPrefix(sql, "--"):
				sql = afterLine(sql)
			case strings.HasPrefix(sql, "/*"):
				sql = afterComment(sql)
			default:
				sql = sql[1:]
			}
		}
	}
	return ""
}

func afterLine(sql string) string {
	_, rest, _ := strings.Cut(sql, "\n")
	return rest
}

func afterComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return sql[i+1:]
			}
		}
	}
	return ""
}

func afterQuote(sql string, quote byte, backslash bool) string {
	for i := 0; i < len(sql); i++ {
		switch {
		case backslash && sql[i] == '\\':
			i++
		case sql[i] == quote && i+1 < len(sql) && sql[i+1] == quote:
			i++
		case sql[i] == quote:
			return sql[i+1:]
		}
	}
	return ""
}

// afterDollar skips a dollar-quoted text; a parameter such as $1 is none, nor a dollar inside a name.
func afterDollar(sql string, before byte) string {
	if before == '_' || before|0x20 >= 'a' && before|0x20 <= 'z' || before >= '0' && before <= '9' {
		return sql[1:]
	}
	end := strings.IndexByte(sql[1:], '$')
	if end < 0 {
		return sql[1:]
	}
	tag := sql[:end+2]
	for i, c := range tag[1 : len(tag)-1] {
		letter := c == '_' || c >= 0x80 || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return sql[1:]
		}
	}
	_, rest, found := strings.Cut(sql[len(tag):], tag)
	if !found {
		return ""
	}
	return rest
}
