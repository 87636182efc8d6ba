export type Json =
  | string
  | number
  | boolean
  | null
  | { [key: string]: Json | undefined }
  | Json[]

export type Database = {
  public: {
    Tables: {
      alert_metrics: {
        Row: {
          description: string
          metric: string
          over_time: boolean
          unit: string
        }
        Insert: {
          description: string
          metric: string
          over_time: boolean
          unit: string
        }
        Update: {
          description?: string
          metric?: string
          over_time?: boolean
          unit?: string
        }
        Relationships: []
      }
      alert_notices: {
        Row: {
          alert_id: number | null
          attempts: number
          body: NonNullable<Json>
          channel: string
          created_at: string
          error: string | null
          id: string
          kind: string
          next_attempt_at: string
          outcome: string | null
          rule: string
          settled_at: string | null
        }
        Insert: {
          alert_id?: number | null
          attempts?: number
          body: NonNullable<Json>
          channel: string
          created_at: string
          error?: string | null
          id?: string
          kind: string
          next_attempt_at: string
          outcome?: string | null
          rule: string
          settled_at?: string | null
        }
        Update: {
          alert_id?: number | null
          attempts?: number
          body?: NonNullable<Json>
          channel?: string
          created_at?: string
          error?: string | null
          id?: string
          kind?: string
          next_attempt_at?: string
          outcome?: string | null
          rule?: string
          settled_at?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "alert_notices_alert_id_fkey"
            columns: ["alert_id"]
            referencedRelation: "alerts"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "alert_notices_rule_fkey"
            columns: ["rule"]
            referencedRelation: "alert_rules"
            referencedColumns: ["rule"]
          },
        ]
      }
      alert_rules: {
        Row: {
          advice: string
          at_least: number
          calm_seconds: number
          comparison: string
          enabled: boolean
          hold_seconds: number
          metric: string
          rule: string
          severity: string
          threshold: number
          updated_at: string
          window_seconds: number | null
        }
        Insert: {
          advice?: string
          at_least?: number
          calm_seconds?: number
          comparison?: string
          enabled?: boolean
          hold_seconds?: number
          metric: string
          rule: string
          severity: string
          threshold: number
          updated_at?: string
          window_seconds?: number | null
        }
        Update: {
          advice?: string
          at_least?: number
          calm_seconds?: number
          comparison?: string
          enabled?: boolean
          hold_seconds?: number
          metric?: string
          rule?: string
          severity?: string
          threshold?: number
          updated_at?: string
          window_seconds?: number | null
        }
        Relationships: [
          {
            foreignKeyName: "alert_rules_metric_is_known"
            columns: ["metric"]
            referencedRelation: "alert_metrics"
            referencedColumns: ["metric"]
          },
        ]
      }
      alert_silences: {
        Row: {
          begins_at: string
          ends_at: string
          id: number
          made_by: string | null
          reason: string
          rule: string | null
        }
        Insert: {
          begins_at?: string
          ends_at: string
          id?: never
          made_by?: string | null
          reason: string
          rule?: string | null
        }
        Update: {
          begins_at?: string
          ends_at?: string
          id?: never
          made_by?: string | null
          reason?: string
          rule?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "alert_silences_rule_fkey"
            columns: ["rule"]
            referencedRelation: "alert_rules"
            referencedColumns: ["rule"]
          },
        ]
      }
      alerts: {
        Row: {
          broken_since: string
          detail: string | null
          fired_at: string
          id: number
          resolved_at: string | null
          rule: string
          severity: string
          threshold: number
          told: boolean
          value: number
          worst: number
        }
        Insert: {
          broken_since: string
          detail?: string | null
          fired_at: string
          id?: never
          resolved_at?: string | null
          rule: string
          severity: string
          threshold: number
          told?: boolean
          value: number
          worst: number
        }
        Update: {
          broken_since?: string
          detail?: string | null
          fired_at?: string
          id?: never
          resolved_at?: string | null
          rule?: string
          severity?: string
          threshold?: number
          told?: boolean
          value?: number
          worst?: number
        }
        Relationships: [
          {
            foreignKeyName: "alerts_rule_fkey"
            columns: ["rule"]
            referencedRelation: "alert_rules"
            referencedColumns: ["rule"]
          },
        ]
      }
      case_members: {
        Row: {
          case_id: string
          created_at: string
          role: string
          user_id: string
        }
        Insert: {
          case_id: string
          created_at?: string
          role?: string
          user_id: string
        }
        Update: {
          case_id?: string
          created_at?: string
          role?: string
          user_id?: string
        }
        Relationships: [
          {
            foreignKeyName: "case_members_case_id_fkey"
            columns: ["case_id"]
            referencedRelation: "cases"
            referencedColumns: ["id"]
          },
        ]
      }
      cases: {
        Row: {
          created_at: string
          deleted_at: string | null
          id: string
          is_inbox: boolean
          kind: string
          name: string
          updated_at: string
          user_id: string | null
        }
        Insert: {
          created_at?: string
          deleted_at?: string | null
          id?: string
          is_inbox?: boolean
          kind?: string
          name?: string
          updated_at?: string
          user_id?: string | null
        }
        Update: {
          created_at?: string
          deleted_at?: string | null
          id?: string
          is_inbox?: boolean
          kind?: string
          name?: string
          updated_at?: string
          user_id?: string | null
        }
        Relationships: []
      }
      check_images: {
        Row: {
          document_id: string
          job_id: string
          name: string
          position: number
          reference: string[] | null
        }
        Insert: {
          document_id: string
          job_id: string
          name: string
          position: number
          reference?: string[] | null
        }
        Update: {
          document_id?: string
          job_id?: string
          name?: string
          position?: number
          reference?: string[] | null
        }
        Relationships: [
          {
            foreignKeyName: "check_images_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "check_images_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "check_images_job_id_fkey"
            columns: ["job_id"]
            referencedRelation: "check_jobs"
            referencedColumns: ["id"]
          },
        ]
      }
      check_jobs: {
        Row: {
          allowed: string[]
          cancel_pending: boolean
          created_at: string
          deadline: string
          ended_at: string | null
          error: string | null
          id: string
          idempotency_key: string | null
          language: string | null
          outcome: string | null
          purged_at: string | null
          request_digest: string | null
          run: number
          seconds: number
          submitted_by: string | null
        }
        Insert: {
          allowed?: string[]
          cancel_pending?: boolean
          created_at?: string
          deadline: string
          ended_at?: string | null
          error?: string | null
          id: string
          idempotency_key?: string | null
          language?: string | null
          outcome?: string | null
          purged_at?: string | null
          request_digest?: string | null
          run?: number
          seconds: number
          submitted_by?: string | null
        }
        Update: {
          allowed?: string[]
          cancel_pending?: boolean
          created_at?: string
          deadline?: string
          ended_at?: string | null
          error?: string | null
          id?: string
          idempotency_key?: string | null
          language?: string | null
          outcome?: string | null
          purged_at?: string | null
          request_digest?: string | null
          run?: number
          seconds?: number
          submitted_by?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "check_jobs_id_fkey"
            columns: ["id"]
            referencedRelation: "cases"
            referencedColumns: ["id"]
          },
        ]
      }
      check_results: {
        Row: {
          created_at: string
          decided_at: string | null
          decided_by: string | null
          decision: string | null
          extracted_text: string
          height: number | null
          issues: NonNullable<Json>
          job_id: string
          match: boolean | null
          position: number
          strings: Json | null
          verdict: string
          width: number | null
        }
        Insert: {
          created_at?: string
          decided_at?: string | null
          decided_by?: string | null
          decision?: string | null
          extracted_text: string
          height?: number | null
          issues: NonNullable<Json>
          job_id: string
          match?: boolean | null
          position: number
          strings?: Json | null
          verdict: string
          width?: number | null
        }
        Update: {
          created_at?: string
          decided_at?: string | null
          decided_by?: string | null
          decision?: string | null
          extracted_text?: string
          height?: number | null
          issues?: NonNullable<Json>
          job_id?: string
          match?: boolean | null
          position?: number
          strings?: Json | null
          verdict?: string
          width?: number | null
        }
        Relationships: [
          {
            foreignKeyName: "check_results_image_fkey"
            columns: ["job_id", "position"]
            referencedRelation: "check_images"
            referencedColumns: ["job_id", "position"]
          },
        ]
      }
      documents: {
        Row: {
          attempt_deadline: string | null
          attempts: number
          case_id: string
          claim_lost_at: string | null
          claimed_at: string | null
          claimed_by: string | null
          created_at: string
          deleted_at: string | null
          document_version: number
          dropbox_path: string | null
          engine: string | null
          error_message: string | null
          extracted_by: string | null
          extraction_due_at: string | null
          extraction_failures: number
          extraction_started_at: string | null
          file_extension: string | null
          id: string
          lane: string
          language: string | null
          listed_in: string | null
          lock_expires_at: string | null
          lock_token: string | null
          locked_at: string | null
          locked_by: string | null
          max_attempts: number
          mime_type: string | null
          name: string
          ocr_completed_at: string | null
          ocr_error: string | null
          ocr_status: string
          open_run_id: number | null
          page_count: number | null
          priority: number
          profile: string | null
          reading: number
          rescues: number
          retry_at: string | null
          retry_count: number
          run_id: number | null
          sha256: string | null
          size_bytes: number | null
          turn: number
          updated_at: string
          version: number
          worker_id: string | null
        }
        Insert: {
          attempt_deadline?: string | null
          attempts?: number
          case_id: string
          claim_lost_at?: string | null
          claimed_at?: string | null
          claimed_by?: string | null
          created_at?: string
          deleted_at?: string | null
          document_version?: number
          dropbox_path?: string | null
          engine?: string | null
          error_message?: string | null
          extracted_by?: string | null
          extraction_due_at?: string | null
          extraction_failures?: number
          extraction_started_at?: string | null
          file_extension?: string | null
          id?: string
          lane?: string
          language?: string | null
          listed_in?: string | null
          lock_expires_at?: string | null
          lock_token?: string | null
          locked_at?: string | null
          locked_by?: string | null
          max_attempts?: number
          mime_type?: string | null
          name: string
          ocr_completed_at?: string | null
          ocr_error?: string | null
          ocr_status?: string
          open_run_id?: number | null
          page_count?: number | null
          priority?: number
          profile?: string | null
          reading?: number
          rescues?: number
          retry_at?: string | null
          retry_count?: number
          run_id?: number | null
          sha256?: string | null
          size_bytes?: number | null
          turn?: number
          updated_at?: string
          version?: number
          worker_id?: string | null
        }
        Update: {
          attempt_deadline?: string | null
          attempts?: number
          case_id?: string
          claim_lost_at?: string | null
          claimed_at?: string | null
          claimed_by?: string | null
          created_at?: string
          deleted_at?: string | null
          document_version?: number
          dropbox_path?: string | null
          engine?: string | null
          error_message?: string | null
          extracted_by?: string | null
          extraction_due_at?: string | null
          extraction_failures?: number
          extraction_started_at?: string | null
          file_extension?: string | null
          id?: string
          lane?: string
          language?: string | null
          listed_in?: string | null
          lock_expires_at?: string | null
          lock_token?: string | null
          locked_at?: string | null
          locked_by?: string | null
          max_attempts?: number
          mime_type?: string | null
          name?: string
          ocr_completed_at?: string | null
          ocr_error?: string | null
          ocr_status?: string
          open_run_id?: number | null
          page_count?: number | null
          priority?: number
          profile?: string | null
          reading?: number
          rescues?: number
          retry_at?: string | null
          retry_count?: number
          run_id?: number | null
          sha256?: string | null
          size_bytes?: number | null
          turn?: number
          updated_at?: string
          version?: number
          worker_id?: string | null
        }
        Relationships: []
      }
      edge_function_config: {
        Row: {
          description: string
          enabled: boolean
          function_name: string
          lanes: string[]
          schedule: string | null
          updated_at: string
        }
        Insert: {
          description?: string
          enabled?: boolean
          function_name: string
          lanes?: string[]
          schedule?: string | null
          updated_at?: string
        }
        Update: {
          description?: string
          enabled?: boolean
          function_name?: string
          lanes?: string[]
          schedule?: string | null
          updated_at?: string
        }
        Relationships: []
      }
      hac_acts: {
        Row: {
          action_description: string | null
          action_type: string
          case_id: string | null
          created_at: string
          document_id: string | null
          field_changed: string | null
          id: string
          metadata: Json | null
          new_value: string | null
          old_value: string | null
          user_id: string | null
        }
        Insert: {
          action_description?: string | null
          action_type: string
          case_id?: string | null
          created_at?: string
          document_id?: string | null
          field_changed?: string | null
          id?: string
          metadata?: Json | null
          new_value?: string | null
          old_value?: string | null
          user_id?: string | null
        }
        Update: {
          action_description?: string | null
          action_type?: string
          case_id?: string | null
          created_at?: string
          document_id?: string | null
          field_changed?: string | null
          id?: string
          metadata?: Json | null
          new_value?: string | null
          old_value?: string | null
          user_id?: string | null
        }
        Relationships: []
      }
      lanes: {
        Row: {
          attempt_seconds: number
          backoff_cap_seconds: number
          backoff_seconds: number
          description: string
          extraction_seconds: number
          failed_pages_allowed: number
          functions: string[]
          is_disabled: boolean
          lane: string
          max_attempts: number
          max_extraction_failures: number
          max_rescues: number
          outage_document_id: string | null
          pause_kind: string | null
          pause_reason: string | null
          paused_at: string | null
          paused_by: string | null
          probe_at: string | null
          probe_seconds: number
          probe_token: string | null
          recovered_at: string | null
          updated_at: string
        }
        Insert: {
          attempt_seconds?: number
          backoff_cap_seconds?: number
          backoff_seconds?: number
          description: string
          extraction_seconds?: number
          failed_pages_allowed?: number
          functions: string[]
          is_disabled?: boolean
          lane: string
          max_attempts?: number
          max_extraction_failures?: number
          max_rescues?: number
          outage_document_id?: string | null
          pause_kind?: string | null
          pause_reason?: string | null
          paused_at?: string | null
          paused_by?: string | null
          probe_at?: string | null
          probe_seconds?: number
          probe_token?: string | null
          recovered_at?: string | null
          updated_at?: string
        }
        Update: {
          attempt_seconds?: number
          backoff_cap_seconds?: number
          backoff_seconds?: number
          description?: string
          extraction_seconds?: number
          failed_pages_allowed?: number
          functions?: string[]
          is_disabled?: boolean
          lane?: string
          max_attempts?: number
          max_extraction_failures?: number
          max_rescues?: number
          outage_document_id?: string | null
          pause_kind?: string | null
          pause_reason?: string | null
          paused_at?: string | null
          paused_by?: string | null
          probe_at?: string | null
          probe_seconds?: number
          probe_token?: string | null
          recovered_at?: string | null
          updated_at?: string
        }
        Relationships: []
      }
      ocr_dead_letter: {
        Row: {
          case_id: string
          created_at: string
          document_id: string
          document_name: string
          dropbox_path: string
          error_category: string
          error_group: string
          failure_count: number
          first_failed_at: string
          id: string
          last_error_details: Json | null
          last_error_message: string | null
          last_failed_at: string
          resolution_notes: string | null
          reviewed_at: string | null
          reviewed_by: string | null
          status: string
          updated_at: string
        }
        Insert: {
          case_id: string
          created_at?: string
          document_id: string
          document_name: string
          dropbox_path?: string
          error_category?: string
          error_group?: never
          failure_count?: number
          first_failed_at?: string
          id?: string
          last_error_details?: Json | null
          last_error_message?: string | null
          last_failed_at?: string
          resolution_notes?: string | null
          reviewed_at?: string | null
          reviewed_by?: string | null
          status?: string
          updated_at?: string
        }
        Update: {
          case_id?: string
          created_at?: string
          document_id?: string
          document_name?: string
          dropbox_path?: string
          error_category?: string
          error_group?: never
          failure_count?: number
          first_failed_at?: string
          id?: string
          last_error_details?: Json | null
          last_error_message?: string | null
          last_failed_at?: string
          resolution_notes?: string | null
          reviewed_at?: string | null
          reviewed_by?: string | null
          status?: string
          updated_at?: string
        }
        Relationships: [
          {
            foreignKeyName: "ocr_dead_letter_case_id_fkey"
            columns: ["case_id"]
            referencedRelation: "cases"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "ocr_dead_letter_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "ocr_dead_letter_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
        ]
      }
      ocr_errors: {
        Row: {
          attempt: number
          case_id: string | null
          created_at: string
          document_id: string | null
          error_category: string
          error_details: NonNullable<Json>
          error_group: string
          error_message: string
          id: number
          kind: string
          lane: string | null
          worker_id: string | null
        }
        Insert: {
          attempt?: number
          case_id?: string | null
          created_at?: string
          document_id?: string | null
          error_category?: string
          error_details?: NonNullable<Json>
          error_group?: never
          error_message: string
          id?: never
          kind: string
          lane?: string | null
          worker_id?: string | null
        }
        Update: {
          attempt?: number
          case_id?: string | null
          created_at?: string
          document_id?: string | null
          error_category?: string
          error_details?: NonNullable<Json>
          error_group?: never
          error_message?: string
          id?: never
          kind?: string
          lane?: string | null
          worker_id?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "ocr_errors_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "ocr_errors_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
        ]
      }
      ocr_pages: {
        Row: {
          case_id: string
          confidence: number | null
          created_at: string
          details: NonNullable<Json>
          document_id: string
          error: string | null
          height: number | null
          language: string | null
          lines: NonNullable<Json>
          page_number: number
          processing_time_ms: number | null
          run_id: number
          status: string
          text: string
          text_search: unknown
          width: number | null
        }
        Insert: {
          case_id: string
          confidence?: number | null
          created_at?: string
          details?: NonNullable<Json>
          document_id: string
          error?: string | null
          height?: number | null
          language?: string | null
          lines?: NonNullable<Json>
          page_number: number
          processing_time_ms?: number | null
          run_id: number
          status?: string
          text?: string
          text_search?: unknown
          width?: number | null
        }
        Update: {
          case_id?: string
          confidence?: number | null
          created_at?: string
          details?: NonNullable<Json>
          document_id?: string
          error?: string | null
          height?: number | null
          language?: string | null
          lines?: NonNullable<Json>
          page_number?: number
          processing_time_ms?: number | null
          run_id?: number
          status?: string
          text?: string
          text_search?: unknown
          width?: number | null
        }
        Relationships: [
          {
            foreignKeyName: "ocr_pages_run_id_fkey"
            columns: ["run_id"]
            referencedRelation: "ocr_runs"
            referencedColumns: ["id"]
          },
        ]
      }
      ocr_processing_logs: {
        Row: {
          attempt: number
          confidence_score: number | null
          created_at: string
          document_id: string
          id: string
          ocr_data: NonNullable<Json>
          ocr_engine: string | null
          ocr_version: string | null
          processing_time_ms: number | null
          retry_count: number
          run_id: number | null
          seconds_to_text: number | null
          worker_id: string | null
        }
        Insert: {
          attempt?: number
          confidence_score?: number | null
          created_at?: string
          document_id: string
          id?: string
          ocr_data: NonNullable<Json>
          ocr_engine?: string | null
          ocr_version?: string | null
          processing_time_ms?: number | null
          retry_count?: number
          run_id?: number | null
          seconds_to_text?: number | null
          worker_id?: string | null
        }
        Update: {
          attempt?: number
          confidence_score?: number | null
          created_at?: string
          document_id?: string
          id?: string
          ocr_data?: NonNullable<Json>
          ocr_engine?: string | null
          ocr_version?: string | null
          processing_time_ms?: number | null
          retry_count?: number
          run_id?: number | null
          seconds_to_text?: number | null
          worker_id?: string | null
        }
        Relationships: []
      }
      ocr_runs: {
        Row: {
          created_at: string
          document_id: string
          engine: string
          engine_version: string
          id: number
          is_whole: boolean
          profile: string
          reading: number
        }
        Insert: {
          created_at?: string
          document_id: string
          engine: string
          engine_version: string
          id?: never
          is_whole?: boolean
          profile: string
          reading: number
        }
        Update: {
          created_at?: string
          document_id?: string
          engine?: string
          engine_version?: string
          id?: never
          is_whole?: boolean
          profile?: string
          reading?: number
        }
        Relationships: [
          {
            foreignKeyName: "ocr_runs_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "ocr_runs_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
        ]
      }
      page_corrections: {
        Row: {
          approved: boolean
          author: string | null
          case_id: string
          created_at: string
          document_id: string
          height: number | null
          is_latest: boolean
          language: string | null
          lines: NonNullable<Json>
          page_number: number
          run_id: number | null
          text: string
          text_search: unknown
          version: number
          width: number | null
        }
        Insert: {
          approved?: boolean
          author?: string | null
          case_id: string
          created_at?: string
          document_id: string
          height?: number | null
          is_latest?: boolean
          language?: string | null
          lines?: NonNullable<Json>
          page_number: number
          run_id?: number | null
          text: string
          text_search: unknown
          version: number
          width?: number | null
        }
        Update: {
          approved?: boolean
          author?: string | null
          case_id?: string
          created_at?: string
          document_id?: string
          height?: number | null
          is_latest?: boolean
          language?: string | null
          lines?: NonNullable<Json>
          page_number?: number
          run_id?: number | null
          text?: string
          text_search?: unknown
          version?: number
          width?: number | null
        }
        Relationships: [
          {
            foreignKeyName: "page_corrections_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "page_corrections_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
        ]
      }
      page_doubts: {
        Row: {
          case_id: string
          confidence: number | null
          created_at: string
          document_id: string
          page_number: number
          status: string
        }
        Insert: {
          case_id: string
          confidence?: number | null
          created_at: string
          document_id: string
          page_number: number
          status: string
        }
        Update: {
          case_id?: string
          confidence?: number | null
          created_at?: string
          document_id?: string
          page_number?: number
          status?: string
        }
        Relationships: [
          {
            foreignKeyName: "page_doubts_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "page_doubts_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
        ]
      }
      pending_uploads: {
        Row: {
          callback_url: string | null
          case_id: string
          created_at: string
          document_id: string | null
          engine: string | null
          existing: boolean | null
          expires_at: string
          id: string
          language: string | null
          name: string
          profile: string | null
          requested_by: string | null
          sha256: string
          size_bytes: number
        }
        Insert: {
          callback_url?: string | null
          case_id: string
          created_at?: string
          document_id?: string | null
          engine?: string | null
          existing?: boolean | null
          expires_at: string
          id?: string
          language?: string | null
          name: string
          profile?: string | null
          requested_by?: string | null
          sha256: string
          size_bytes: number
        }
        Update: {
          callback_url?: string | null
          case_id?: string
          created_at?: string
          document_id?: string | null
          engine?: string | null
          existing?: boolean | null
          expires_at?: string
          id?: string
          language?: string | null
          name?: string
          profile?: string | null
          requested_by?: string | null
          sha256?: string
          size_bytes?: number
        }
        Relationships: [
          {
            foreignKeyName: "pending_uploads_case_id_fkey"
            columns: ["case_id"]
            referencedRelation: "cases"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "pending_uploads_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "pending_uploads_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
        ]
      }
      tasks: {
        Row: {
          assigned_to: string | null
          assignee_role: string
          case_id: string | null
          created_at: string
          description: string | null
          document_id: string | null
          done_at: string | null
          done_by: string | null
          id: string
          kind: string
          metadata: NonNullable<Json>
          priority: string
          status: string
          title: string
          updated_at: string
          urgency: number
        }
        Insert: {
          assigned_to?: string | null
          assignee_role?: string
          case_id?: string | null
          created_at?: string
          description?: string | null
          document_id?: string | null
          done_at?: string | null
          done_by?: string | null
          id?: string
          kind?: string
          metadata?: NonNullable<Json>
          priority?: string
          status?: string
          title: string
          updated_at?: string
          urgency?: never
        }
        Update: {
          assigned_to?: string | null
          assignee_role?: string
          case_id?: string | null
          created_at?: string
          description?: string | null
          document_id?: string | null
          done_at?: string | null
          done_by?: string | null
          id?: string
          kind?: string
          metadata?: NonNullable<Json>
          priority?: string
          status?: string
          title?: string
          updated_at?: string
          urgency?: never
        }
        Relationships: [
          {
            foreignKeyName: "tasks_case_id_fkey"
            columns: ["case_id"]
            referencedRelation: "cases"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "tasks_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "tasks_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
        ]
      }
      user_roles: {
        Row: {
          created_at: string
          role: Database["public"]["Enums"]["app_role"]
          user_id: string
        }
        Insert: {
          created_at?: string
          role: Database["public"]["Enums"]["app_role"]
          user_id: string
        }
        Update: {
          created_at?: string
          role?: Database["public"]["Enums"]["app_role"]
          user_id?: string
        }
        Relationships: []
      }
      volume_jobs: {
        Row: {
          config: NonNullable<Json>
          created_at: string
          finished_at: string | null
          id: number
          job_key: string
          max_attempts: number
          max_rescues: number
          stage_seconds: number
          status: string
          updated_at: string
          user_id: string | null
        }
        Insert: {
          config?: NonNullable<Json>
          created_at?: string
          finished_at?: string | null
          id?: never
          job_key: string
          max_attempts?: number
          max_rescues?: number
          stage_seconds?: number
          status?: string
          updated_at?: string
          user_id?: string | null
        }
        Update: {
          config?: NonNullable<Json>
          created_at?: string
          finished_at?: string | null
          id?: never
          job_key?: string
          max_attempts?: number
          max_rescues?: number
          stage_seconds?: number
          status?: string
          updated_at?: string
          user_id?: string | null
        }
        Relationships: []
      }
      volume_results: {
        Row: {
          created_at: string
          dewarping_applied_count: number | null
          metrics: NonNullable<Json>
          processing_duration_ms: number | null
          task_id: number
          total_characters: number | null
          total_images: number | null
          total_lines: number | null
          updated_at: string
        }
        Insert: {
          created_at?: string
          dewarping_applied_count?: number | null
          metrics?: NonNullable<Json>
          processing_duration_ms?: number | null
          task_id: number
          total_characters?: number | null
          total_images?: number | null
          total_lines?: number | null
          updated_at?: string
        }
        Update: {
          created_at?: string
          dewarping_applied_count?: number | null
          metrics?: NonNullable<Json>
          processing_duration_ms?: number | null
          task_id?: number
          total_characters?: number | null
          total_images?: number | null
          total_lines?: number | null
          updated_at?: string
        }
        Relationships: [
          {
            foreignKeyName: "volume_results_task_id_fkey"
            columns: ["task_id"]
            referencedRelation: "volume_tasks"
            referencedColumns: ["id"]
          },
        ]
      }
      volume_runs: {
        Row: {
          attempt: number
          ended_at: string | null
          error: Json | null
          failed_pages: number | null
          id: number
          job_id: number
          metrics: Json | null
          outcome: string | null
          pages: number | null
          stage: string
          started_at: string
          task_id: number
          token: string
          worker_id: string
        }
        Insert: {
          attempt: number
          ended_at?: string | null
          error?: Json | null
          failed_pages?: number | null
          id?: never
          job_id: number
          metrics?: Json | null
          outcome?: string | null
          pages?: number | null
          stage: string
          started_at: string
          task_id: number
          token: string
          worker_id: string
        }
        Update: {
          attempt?: number
          ended_at?: string | null
          error?: Json | null
          failed_pages?: number | null
          id?: never
          job_id?: number
          metrics?: Json | null
          outcome?: string | null
          pages?: number | null
          stage?: string
          started_at?: string
          task_id?: number
          token?: string
          worker_id?: string
        }
        Relationships: [
          {
            foreignKeyName: "volume_runs_task_id_fkey"
            columns: ["task_id"]
            referencedRelation: "volume_tasks"
            referencedColumns: ["id"]
          },
        ]
      }
      volume_tasks: {
        Row: {
          attempts: number
          created_at: string
          current_stage: string
          deadline: string | null
          done_at: string | null
          forced_stage: string | null
          id: number
          job_id: number
          last_error: Json | null
          lock_expires_at: string | null
          locked_at: string | null
          locked_by: string | null
          max_attempts: number
          pages_done: number
          pages_total: number | null
          publications: number
          published_at: string | null
          published_to: string | null
          rescues: number
          retry_at: string | null
          started_at: string | null
          status: string
          token: string | null
          updated_at: string
          volume_id: number
        }
        Insert: {
          attempts?: number
          created_at?: string
          current_stage?: string
          deadline?: string | null
          done_at?: string | null
          forced_stage?: string | null
          id?: never
          job_id: number
          last_error?: Json | null
          lock_expires_at?: string | null
          locked_at?: string | null
          locked_by?: string | null
          max_attempts?: number
          pages_done?: number
          pages_total?: number | null
          publications?: number
          published_at?: string | null
          published_to?: string | null
          rescues?: number
          retry_at?: string | null
          started_at?: string | null
          status?: string
          token?: string | null
          updated_at?: string
          volume_id: number
        }
        Update: {
          attempts?: number
          created_at?: string
          current_stage?: string
          deadline?: string | null
          done_at?: string | null
          forced_stage?: string | null
          id?: never
          job_id?: number
          last_error?: Json | null
          lock_expires_at?: string | null
          locked_at?: string | null
          locked_by?: string | null
          max_attempts?: number
          pages_done?: number
          pages_total?: number | null
          publications?: number
          published_at?: string | null
          published_to?: string | null
          rescues?: number
          retry_at?: string | null
          started_at?: string | null
          status?: string
          token?: string | null
          updated_at?: string
          volume_id?: number
        }
        Relationships: [
          {
            foreignKeyName: "volume_tasks_job_id_fkey"
            columns: ["job_id"]
            referencedRelation: "volume_jobs"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "volume_tasks_volume_id_fkey"
            columns: ["volume_id"]
            referencedRelation: "volumes"
            referencedColumns: ["id"]
          },
        ]
      }
      volumes: {
        Row: {
          bdrc_i_id: string
          bdrc_w_id: string
          created_at: string
          id: number
        }
        Insert: {
          bdrc_i_id: string
          bdrc_w_id: string
          created_at?: string
          id?: never
        }
        Update: {
          bdrc_i_id?: string
          bdrc_w_id?: string
          created_at?: string
          id?: never
        }
        Relationships: []
      }
      webhooks: {
        Row: {
          attempts: number
          created_at: string
          delivered: boolean | null
          document_id: string | null
          error: string | null
          id: string
          job_id: string | null
          next_attempt_at: string
          requested_by: string | null
          settled_at: string | null
          url: string
        }
        Insert: {
          attempts?: number
          created_at?: string
          delivered?: boolean | null
          document_id?: string | null
          error?: string | null
          id?: string
          job_id?: string | null
          next_attempt_at?: string
          requested_by?: string | null
          settled_at?: string | null
          url: string
        }
        Update: {
          attempts?: number
          created_at?: string
          delivered?: boolean | null
          document_id?: string | null
          error?: string | null
          id?: string
          job_id?: string | null
          next_attempt_at?: string
          requested_by?: string | null
          settled_at?: string | null
          url?: string
        }
        Relationships: [
          {
            foreignKeyName: "webhooks_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "documents"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "webhooks_document_id_fkey"
            columns: ["document_id"]
            referencedRelation: "extraction_queue"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "webhooks_job_fkey"
            columns: ["job_id"]
            referencedRelation: "check_jobs"
            referencedColumns: ["id"]
          },
        ]
      }
    }
    Views: {
      extraction_queue: {
        Row: {
          case_id: string | null
          claim_token: string | null
          created_at: string | null
          document_name: string | null
          document_source: string | null
          dropbox_path: string | null
          engine: string | null
          error_message: string | null
          extracted_by: string | null
          extraction_due_at: string | null
          extraction_failures: number | null
          extraction_started_at: string | null
          file_extension: string | null
          id: string | null
          language: string | null
          lock_token: string | null
          ocr_attempts: number | null
          ocr_completed_at: string | null
          ocr_confidence: number | null
          ocr_error: string | null
          ocr_max_attempts: number | null
          ocr_started_at: string | null
          ocr_text: string | null
          ocr_worker_id: string | null
          priority: number | null
          sha256: string | null
          status_id: number | null
          updated_at: string | null
          worker_id: string | null
        }
        Insert: {
          case_id?: string | null
          claim_token?: string | null
          created_at?: string | null
          document_name?: string | null
          document_source?: string | null
          dropbox_path?: string | null
          engine?: string | null
          error_message?: string | null
          extracted_by?: string | null
          extraction_due_at?: string | null
          extraction_failures?: number | null
          extraction_started_at?: string | null
          file_extension?: string | null
          id?: string | null
          language?: string | null
          lock_token?: string | null
          ocr_attempts?: number | null
          ocr_completed_at?: string | null
          ocr_confidence?: number | null
          ocr_error?: string | null
          ocr_max_attempts?: number | null
          ocr_started_at?: string | null
          ocr_text?: string | null
          ocr_worker_id?: string | null
          priority?: number | null
          sha256?: string | null
          status_id?: number | null
          updated_at?: string | null
          worker_id?: string | null
        }
        Update: {
          case_id?: string | null
          claim_token?: string | null
          created_at?: string | null
          document_name?: string | null
          document_source?: string | null
          dropbox_path?: string | null
          engine?: string | null
          error_message?: string | null
          extracted_by?: string | null
          extraction_due_at?: string | null
          extraction_failures?: number | null
          extraction_started_at?: string | null
          file_extension?: string | null
          id?: string | null
          language?: string | null
          lock_token?: string | null
          ocr_attempts?: number | null
          ocr_completed_at?: string | null
          ocr_confidence?: number | null
          ocr_error?: string | null
          ocr_max_attempts?: number | null
          ocr_started_at?: string | null
          ocr_text?: string | null
          ocr_worker_id?: string | null
          priority?: number | null
          sha256?: string | null
          status_id?: number | null
          updated_at?: string | null
          worker_id?: string | null
        }
        Relationships: []
      }
      hac_logs: {
        Row: {
          action_description: string | null
          action_type: string | null
          case_id: string | null
          created_at: string | null
          document_id: string | null
          field_changed: string | null
          id: string | null
          metadata: Json | null
          new_value: string | null
          old_value: string | null
          user_id: string | null
        }
        Insert: {
          action_description?: string | null
          action_type?: string | null
          case_id?: string | null
          created_at?: string | null
          document_id?: string | null
          field_changed?: string | null
          id?: string | null
          metadata?: Json | null
          new_value?: string | null
          old_value?: string | null
          user_id?: string | null
        }
        Relationships: []
      }
      ocr_success_criteria: {
        Row: {
          comparison: string | null
          criterion: string | null
          events: number | null
          met: boolean | null
          threshold: number | null
          unit: string | null
          value: number | null
        }
        Relationships: []
      }
      ocr_system_health: {
        Row: {
          avg_processing_seconds: number | null
          avg_retries: number | null
          awaiting_file: number | null
          completed: number | null
          completed_24h: number | null
          dead_lettered_24h: number | null
          extracting: number | null
          extraction_failed: number | null
          failed: number | null
          in_dlq: number | null
          max_retries: number | null
          oldest_waiting_id: string | null
          oldest_waiting_seconds: number | null
          open_tasks: number | null
          paused_lanes: string[] | null
          pending: number | null
          pending_review: number | null
          processing: number | null
          queued: number | null
          stuck: number | null
          success_rate_24h_pct: number | null
          waiting_to_retry: number | null
        }
        Relationships: []
      }
      page_texts: {
        Row: {
          approved: boolean | null
          case_id: string | null
          confidence: number | null
          corrected_at: string | null
          corrected_by: string | null
          details: Json | null
          document_id: string | null
          error: string | null
          height: number | null
          language: string | null
          lines: Json | null
          page_number: number | null
          run_id: number | null
          status: string | null
          text: string | null
          version: number | null
          width: number | null
        }
        Relationships: []
      }
    }
    Functions: {
      acquire_document_lock: {
        Args: {
          p_document_id: string
          p_lock_timeout?: number
          p_now?: string
          p_worker_id: string
        }
        Returns: Json
      }
      acquire_document_lock_v7: {
        Args: {
          p_document_id: string
          p_lock_timeout?: number
          p_now?: string
          p_worker_id: string
        }
        Returns: Json
      }
      add_documents: {
        Args: {
          p_case_id: string
          p_documents: Json
          p_lane: string
          p_priority?: number
        }
        Returns: string[]
      }
      add_temporary_file: {
        Args: { p_now?: string; p_path: string; p_seconds: number }
        Returns: undefined
      }
      apply_retention: {
        Args: {
          p_dry_run?: boolean
          p_limit?: number
          p_now?: string
          p_terms: Json
        }
        Returns: Database["public"]["CompositeTypes"]["apply_retention_answer"]
        SetofOptions: {
          from: "*"
          to: "apply_retention_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      assign_pool: {
        Args: {
          p_backlog: Json
          p_now?: string
          p_process: string
          p_term: number
          p_workers: Json
        }
        Returns: Database["public"]["CompositeTypes"]["assign_pool_answer"]
        SetofOptions: {
          from: "*"
          to: "assign_pool_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      assign_task: {
        Args: { p_from?: string; p_task_id: string; p_user_id?: string }
        Returns: Database["public"]["CompositeTypes"]["task_answer"]
        SetofOptions: {
          from: "*"
          to: "task_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      begin_dispatch: {
        Args: {
          p_document_id: string
          p_invocation_id: string
          p_lock_timeout?: number
          p_lock_token: string
          p_now?: string
          p_worker_id: string
        }
        Returns: Database["public"]["CompositeTypes"]["dispatch_answer"]
        SetofOptions: {
          from: "*"
          to: "dispatch_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      begin_function_run: { Args: { p_function_name: string }; Returns: number }
      cancel_case: {
        Args: { p_case_id: string }
        Returns: Database["public"]["CompositeTypes"]["case_answer"]
        SetofOptions: {
          from: "*"
          to: "case_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      cancel_check_job: {
        Args: { p_job_id: string }
        Returns: Database["public"]["CompositeTypes"]["check_job_change"]
        SetofOptions: {
          from: "*"
          to: "check_job_change"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      cancel_document: {
        Args: { p_document_id: string; p_reason?: string }
        Returns: Database["public"]["CompositeTypes"]["document_answer"]
        SetofOptions: {
          from: "*"
          to: "document_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      cancel_volume_job: {
        Args: { p_job_id: number; p_reason?: string }
        Returns: Database["public"]["CompositeTypes"]["cancel_volume_job_answer"]
        SetofOptions: {
          from: "*"
          to: "cancel_volume_job_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      case_contents: {
        Args: { p_case_id: string }
        Returns: Database["public"]["CompositeTypes"]["case_contents_answer"][]
        SetofOptions: {
          from: "*"
          to: "case_contents_answer"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      check_job: {
        Args: { p_job_id: string }
        Returns: Database["public"]["CompositeTypes"]["check_job_answer"]
        SetofOptions: {
          from: "*"
          to: "check_job_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      claim_alert_notices: {
        Args: { p_lease_seconds?: number; p_limit?: number; p_now?: string }
        Returns: Database["public"]["CompositeTypes"]["claimed_alert_notice"][]
        SetofOptions: {
          from: "*"
          to: "claimed_alert_notice"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      claim_documents: {
        Args: {
          p_lanes?: string[]
          p_limit?: number
          p_lock_timeout?: number
          p_now?: string
          p_worker_id: string
        }
        Returns: Database["public"]["CompositeTypes"]["claimed_document"][]
        SetofOptions: {
          from: "*"
          to: "claimed_document"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      claim_volume_outbox: {
        Args: { p_lease_seconds?: number; p_limit?: number; p_now?: string }
        Returns: Database["public"]["CompositeTypes"]["volume_outbox_message"][]
        SetofOptions: {
          from: "*"
          to: "volume_outbox_message"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      claim_webhooks: {
        Args: { p_lease_seconds?: number; p_limit?: number; p_now?: string }
        Returns: Database["public"]["CompositeTypes"]["claimed_webhook"][]
        SetofOptions: {
          from: "*"
          to: "claimed_webhook"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      complete_check: {
        Args: {
          p_confidence: number
          p_document_id: string
          p_engine?: string
          p_lock_token?: string
          p_now?: string
          p_page_count?: number
          p_processing_time_ms: number
          p_profile?: string
          p_results: Json
          p_version?: string
        }
        Returns: Database["public"]["CompositeTypes"]["complete_check_answer"]
        SetofOptions: {
          from: "*"
          to: "complete_check_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      complete_documents: {
        Args: {
          p_claim_limit?: number
          p_confidences?: number[]
          p_document_ids: string[]
          p_engine?: string
          p_lanes?: string[]
          p_lock_timeout?: number
          p_lock_tokens: string[]
          p_now?: string
          p_ocr_data: Json[]
          p_page_counts?: number[]
          p_processing_times_ms?: number[]
          p_profile?: string
          p_version?: string
          p_worker_id?: string
        }
        Returns: Database["public"]["CompositeTypes"]["complete_documents_answer"][]
        SetofOptions: {
          from: "*"
          to: "complete_documents_answer"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      complete_volume_stage: {
        Args: {
          p_failed_pages?: number
          p_metrics?: Json
          p_now?: string
          p_pages: number
          p_skipped?: boolean
          p_task_id: number
          p_token: string
        }
        Returns: Database["public"]["CompositeTypes"]["volume_stage_answer"]
        SetofOptions: {
          from: "*"
          to: "volume_stage_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      confirm_upload: {
        Args: {
          p_file_extension?: string
          p_lane?: string
          p_mime_type?: string
          p_new_dropbox_path?: string
          p_ocr_status?: string
          p_upload_id: string
        }
        Returns: Database["public"]["CompositeTypes"]["confirm_upload_answer"]
        SetofOptions: {
          from: "*"
          to: "confirm_upload_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      correct_page: {
        Args: {
          p_approved?: boolean
          p_base_version: number
          p_document_id: string
          p_lines?: Json
          p_page_number: number
          p_text?: string
        }
        Returns: Database["public"]["CompositeTypes"]["correct_page_answer"]
        SetofOptions: {
          from: "*"
          to: "correct_page_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      count_dead_letters: { Args: { p_filter?: Json }; Returns: number }
      count_old_check_jobs: {
        Args: { p_input_days?: number; p_now?: string; p_result_days?: number }
        Returns: Database["public"]["CompositeTypes"]["check_job_purge"]
        SetofOptions: {
          from: "*"
          to: "check_job_purge"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      create_case: {
        Args: {
          p_inbox?: boolean
          p_kind?: string
          p_name: string
          p_owner?: string
        }
        Returns: string
      }
      create_task: {
        Args: {
          p_assigned_to?: string
          p_description?: string
          p_priority?: string
          p_title: string
        }
        Returns: Database["public"]["CompositeTypes"]["task_answer"]
        SetofOptions: {
          from: "*"
          to: "task_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      create_volume_job: {
        Args: {
          p_config?: Json
          p_job_key?: string
          p_max_attempts?: number
          p_stage_seconds?: number
          p_volumes: Json
        }
        Returns: Database["public"]["CompositeTypes"]["create_volume_job_answer"]
        SetofOptions: {
          from: "*"
          to: "create_volume_job_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      dead_letter_groups: {
        Args: { p_filter?: Json; p_limit?: number; p_offset?: number }
        Returns: Database["public"]["CompositeTypes"]["dead_letter_group"][]
        SetofOptions: {
          from: "*"
          to: "dead_letter_group"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      decide_check: {
        Args: { p_decision: string; p_job_id: string; p_position: number }
        Returns: Database["public"]["CompositeTypes"]["decide_check_answer"]
        SetofOptions: {
          from: "*"
          to: "decide_check_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      delete_case: {
        Args: { p_case_id: string }
        Returns: Database["public"]["CompositeTypes"]["case_answer"]
        SetofOptions: {
          from: "*"
          to: "case_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      delete_document: {
        Args: { p_document_id: string }
        Returns: Database["public"]["CompositeTypes"]["document_answer"]
        SetofOptions: {
          from: "*"
          to: "document_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      document_archive: {
        Args: { p_document_id: string; p_known_sha256?: string }
        Returns: string
      }
      document_history: {
        Args: { p_document_id: string; p_limit?: number }
        Returns: Database["public"]["CompositeTypes"]["document_event"][]
        SetofOptions: {
          from: "*"
          to: "document_event"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      document_progress: {
        Args: { p_document_id: string }
        Returns: Database["public"]["CompositeTypes"]["document_progress_answer"]
        SetofOptions: {
          from: "*"
          to: "document_progress_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      end_function_run: {
        Args: {
          p_error?: string
          p_outcome: string
          p_result?: Json
          p_run_id: number
        }
        Returns: boolean
      }
      end_silence: {
        Args: { p_silence_id: number }
        Returns: Database["public"]["CompositeTypes"]["silence_answer"]
        SetofOptions: {
          from: "*"
          to: "silence_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      end_task: {
        Args: { p_notes?: string; p_status?: string; p_task_id: string }
        Returns: Database["public"]["CompositeTypes"]["task_answer"]
        SetofOptions: {
          from: "*"
          to: "task_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      erase_archived_document: {
        Args: { p_archive_sha256: string; p_document_id: string }
        Returns: Database["public"]["CompositeTypes"]["erase_archived_document_answer"]
        SetofOptions: {
          from: "*"
          to: "erase_archived_document_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      erase_case: {
        Args: { p_case_id: string }
        Returns: Database["public"]["CompositeTypes"]["case_answer"]
        SetofOptions: {
          from: "*"
          to: "case_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      erase_document: {
        Args: { p_document_id: string }
        Returns: Database["public"]["CompositeTypes"]["document_answer"]
        SetofOptions: {
          from: "*"
          to: "document_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      evaluate_alerts: {
        Args: { p_now?: string }
        Returns: Database["public"]["CompositeTypes"]["evaluate_alerts_answer"]
        SetofOptions: {
          from: "*"
          to: "evaluate_alerts_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      expired_files: {
        Args: { p_after?: number; p_limit?: number; p_now?: string }
        Returns: Database["public"]["CompositeTypes"]["file_to_remove"][]
        SetofOptions: {
          from: "*"
          to: "file_to_remove"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      expired_files_removed: {
        Args: { p_ids: number[]; p_now?: string }
        Returns: number
      }
      extend_dispatch: {
        Args: {
          p_document_id: string
          p_lock_timeout?: number
          p_lock_token: string
          p_now?: string
        }
        Returns: Database["public"]["CompositeTypes"]["dispatch_answer"]
        SetofOptions: {
          from: "*"
          to: "dispatch_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      extend_document_lock: {
        Args: {
          p_document_id: string
          p_lock_timeout?: number
          p_lock_token: string
          p_now?: string
        }
        Returns: Database["public"]["CompositeTypes"]["extend_document_lock_answer"]
        SetofOptions: {
          from: "*"
          to: "extend_document_lock_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      extend_volume_lock: {
        Args: {
          p_lock_seconds?: number
          p_now?: string
          p_pages_done?: number
          p_pages_total?: number
          p_task_id: number
          p_token: string
        }
        Returns: Database["public"]["CompositeTypes"]["volume_stage_answer"]
        SetofOptions: {
          from: "*"
          to: "volume_stage_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      extend_volume_message: {
        Args: { p_handle: number; p_seconds: number; p_stage: string }
        Returns: boolean
      }
      fail_document: {
        Args: {
          p_document_id: string
          p_error_category?: string
          p_error_details?: Json
          p_error_message: string
          p_lock_token: string
          p_now?: string
          p_retry_after?: number
        }
        Returns: Database["public"]["CompositeTypes"]["fail_document_answer"]
        SetofOptions: {
          from: "*"
          to: "fail_document_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      fail_volume_stage: {
        Args: {
          p_category?: string
          p_error: Json
          p_now?: string
          p_retry_after?: number
          p_task_id: number
          p_token: string
        }
        Returns: Database["public"]["CompositeTypes"]["volume_stage_answer"]
        SetofOptions: {
          from: "*"
          to: "volume_stage_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      files_removed: { Args: { p_ids: number[] }; Returns: number }
      files_to_remove: {
        Args: { p_after?: number; p_limit?: number }
        Returns: Database["public"]["CompositeTypes"]["file_to_remove"][]
        SetofOptions: {
          from: "*"
          to: "file_to_remove"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      get_check: {
        Args: { p_document_id: string; p_lock_token?: string }
        Returns: Database["public"]["CompositeTypes"]["get_check_answer"]
        SetofOptions: {
          from: "*"
          to: "get_check_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      give_back_documents: {
        Args: { p_documents: Json }
        Returns: Database["public"]["CompositeTypes"]["give_back_documents_answer"]
        SetofOptions: {
          from: "*"
          to: "give_back_documents_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      grant_role: {
        Args: {
          p_role?: Database["public"]["Enums"]["app_role"]
          p_user_id: string
        }
        Returns: Database["public"]["CompositeTypes"]["role_answer"]
        SetofOptions: {
          from: "*"
          to: "role_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      has_role: {
        Args: {
          p_role: Database["public"]["Enums"]["app_role"]
          p_user_id: string
        }
        Returns: boolean
      }
      is_function_enabled: {
        Args: { p_function_name: string }
        Returns: boolean
      }
      lead_pool: {
        Args: { p_lease_seconds: number; p_now?: string; p_process: string }
        Returns: Database["public"]["CompositeTypes"]["lead_pool_answer"]
        SetofOptions: {
          from: "*"
          to: "lead_pool_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      list_action_types: { Args: Record<PropertyKey, never>; Returns: string[] }
      list_acts: {
        Args: {
          p_action_type?: string
          p_before?: string
          p_before_id?: string
          p_case_id?: string
          p_document_id?: string
          p_email?: string
          p_limit?: number
          p_since?: string
          p_until?: string
        }
        Returns: Database["public"]["CompositeTypes"]["listed_act"][]
        SetofOptions: {
          from: "*"
          to: "listed_act"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_alert_rules: {
        Args: Record<PropertyKey, never>
        Returns: Database["public"]["CompositeTypes"]["listed_alert_rule"][]
        SetofOptions: {
          from: "*"
          to: "listed_alert_rule"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_alerts: {
        Args: { p_before?: string; p_before_id?: number; p_limit?: number }
        Returns: {
          broken_since: string
          detail: string | null
          fired_at: string
          id: number
          resolved_at: string | null
          rule: string
          severity: string
          threshold: number
          told: boolean
          value: number
          worst: number
        }[]
        SetofOptions: {
          from: "*"
          to: "alerts"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_case_people: {
        Args: { p_case_id: string }
        Returns: Database["public"]["CompositeTypes"]["case_person"][]
        SetofOptions: {
          from: "*"
          to: "case_person"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_cases: {
        Args: {
          p_before?: string
          p_before_id?: string
          p_deleted?: boolean
          p_kind?: string
          p_limit?: number
          p_search?: string
        }
        Returns: Database["public"]["CompositeTypes"]["listed_case"][]
        SetofOptions: {
          from: "*"
          to: "listed_case"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_check_jobs: {
        Args: {
          p_before?: string
          p_before_id?: string
          p_everybody?: boolean
          p_limit?: number
          p_status?: string
        }
        Returns: Database["public"]["CompositeTypes"]["check_job_summary"][]
        SetofOptions: {
          from: "*"
          to: "check_job_summary"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_dead_letters: {
        Args: {
          p_before?: string
          p_before_id?: string
          p_filter?: Json
          p_limit?: number
        }
        Returns: Database["public"]["CompositeTypes"]["listed_dead_letter"][]
        SetofOptions: {
          from: "*"
          to: "listed_dead_letter"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_documents: {
        Args: {
          p_before?: string
          p_before_id?: string
          p_case_id?: string
          p_deleted?: boolean
          p_lane?: string
          p_limit?: number
          p_name?: string
          p_status?: string
        }
        Returns: Database["public"]["CompositeTypes"]["listed_document"][]
        SetofOptions: {
          from: "*"
          to: "listed_document"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_doubts: {
        Args: {
          p_after?: string
          p_after_id?: string
          p_case_id?: string
          p_limit?: number
        }
        Returns: Database["public"]["CompositeTypes"]["doubtful_document"][]
        SetofOptions: {
          from: "*"
          to: "doubtful_document"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_functions: {
        Args: Record<PropertyKey, never>
        Returns: Database["public"]["CompositeTypes"]["listed_function"][]
        SetofOptions: {
          from: "*"
          to: "listed_function"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_lanes: {
        Args: Record<PropertyKey, never>
        Returns: Database["public"]["CompositeTypes"]["listed_lane"][]
        SetofOptions: {
          from: "*"
          to: "listed_lane"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_people: {
        Args: {
          p_admin?: boolean
          p_after?: string
          p_after_id?: string
          p_limit?: number
          p_search?: string
        }
        Returns: Database["public"]["CompositeTypes"]["listed_person"][]
        SetofOptions: {
          from: "*"
          to: "listed_person"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_tasks: {
        Args: {
          p_after?: string
          p_after_id?: string
          p_after_urgency?: number
          p_kind?: string
          p_limit?: number
          p_priority?: string
          p_whose?: string
        }
        Returns: Database["public"]["CompositeTypes"]["listed_task"][]
        SetofOptions: {
          from: "*"
          to: "listed_task"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_volume_jobs: {
        Args: {
          p_before?: string
          p_before_id?: number
          p_limit?: number
          p_status?: string
        }
        Returns: Database["public"]["CompositeTypes"]["listed_volume_job"][]
        SetofOptions: {
          from: "*"
          to: "listed_volume_job"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_volume_tasks: {
        Args: {
          p_after_id?: number
          p_after_rank?: number
          p_by_id?: boolean
          p_job_id: number
          p_limit?: number
          p_stage?: string
          p_status?: string
        }
        Returns: Database["public"]["CompositeTypes"]["listed_volume_task"][]
        SetofOptions: {
          from: "*"
          to: "listed_volume_task"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      list_workers: {
        Args: Record<PropertyKey, never>
        Returns: Database["public"]["CompositeTypes"]["listed_worker"][]
        SetofOptions: {
          from: "*"
          to: "listed_worker"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      move_to_dead_letter_queue: {
        Args: {
          p_document_id: string
          p_error_category?: string
          p_error_details?: Json
          p_error_message: string
          p_lock_token?: string
          p_now?: string
        }
        Returns: Json
      }
      orchestrate_volumes: {
        Args: {
          p_limit?: number
          p_now?: string
          p_process?: string
          p_queue?: string
        }
        Returns: Database["public"]["CompositeTypes"]["orchestrate_volumes_answer"][]
        SetofOptions: {
          from: "*"
          to: "orchestrate_volumes_answer"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      page_versions: {
        Args: { p_document_id: string; p_page_number: number }
        Returns: Database["public"]["CompositeTypes"]["page_version"][]
        SetofOptions: {
          from: "*"
          to: "page_version"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      pause_lane: {
        Args: { p_lane: string; p_reason: string }
        Returns: Database["public"]["CompositeTypes"]["pause_lane_answer"]
        SetofOptions: {
          from: "*"
          to: "pause_lane_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      pool_status: {
        Args: { p_hours?: number }
        Returns: Database["public"]["CompositeTypes"]["pool_status_answer"]
        SetofOptions: {
          from: "*"
          to: "pool_status_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      process_ocr_atomic: {
        Args: {
          p_confidence: number
          p_document_id: string
          p_engine?: string
          p_lock_token?: string
          p_now?: string
          p_ocr_data: Json
          p_page_count?: number
          p_processing_time_ms: number
          p_profile?: string
          p_version?: string
        }
        Returns: Json
      }
      purge_check_jobs: {
        Args: {
          p_input_days?: number
          p_limit?: number
          p_now?: string
          p_result_days?: number
        }
        Returns: Database["public"]["CompositeTypes"]["check_job_purge"]
        SetofOptions: {
          from: "*"
          to: "check_job_purge"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      read_again: {
        Args: {
          p_document_id: string
          p_engine?: string
          p_language?: string
          p_profile?: string
        }
        Returns: Database["public"]["CompositeTypes"]["read_again_answer"]
        SetofOptions: {
          from: "*"
          to: "read_again_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      receive_volume_messages: {
        Args: {
          p_limit?: number
          p_now?: string
          p_stages: string[]
          p_visibility?: number
        }
        Returns: Database["public"]["CompositeTypes"]["volume_stage_message"][]
        SetofOptions: {
          from: "*"
          to: "volume_stage_message"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      recover_stuck_documents: {
        Args: { p_document_ids?: string[]; p_stuck_minutes?: number }
        Returns: Database["public"]["CompositeTypes"]["recover_stuck_documents_answer"]
        SetofOptions: {
          from: "*"
          to: "recover_stuck_documents_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      refuse_documents: {
        Args: { p_document_ids: string[]; p_reason: string }
        Returns: Database["public"]["CompositeTypes"]["route_documents_answer"]
        SetofOptions: {
          from: "*"
          to: "route_documents_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      release_documents: {
        Args: {
          p_documents: Json
          p_now?: string
          p_outage?: boolean
          p_reason?: string
          p_retry_after?: number
          p_unless_begun?: boolean
        }
        Returns: Database["public"]["CompositeTypes"]["release_documents_answer"]
        SetofOptions: {
          from: "*"
          to: "release_documents_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      release_volume_stage: {
        Args: {
          p_now?: string
          p_outage?: boolean
          p_reason?: string
          p_task_id: number
          p_token: string
        }
        Returns: Database["public"]["CompositeTypes"]["volume_stage_answer"]
        SetofOptions: {
          from: "*"
          to: "volume_stage_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      remove_volume_message: {
        Args: { p_handle: number; p_stage: string }
        Returns: boolean
      }
      report_conflict: {
        Args: { p_case_id?: string; p_document_id?: string; p_message: string }
        Returns: undefined
      }
      report_gauge: {
        Args: { p_gauge: string; p_now?: string; p_value: number }
        Returns: undefined
      }
      report_pool: {
        Args: {
          p_lanes: string[]
          p_now?: string
          p_process: string
          p_workers: Json
        }
        Returns: Database["public"]["CompositeTypes"]["report_pool_answer"]
        SetofOptions: {
          from: "*"
          to: "report_pool_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      republish_volumes: {
        Args: { p_now?: string; p_older_seconds?: number; p_stage: string }
        Returns: number
      }
      request_upload: {
        Args: {
          p_callback_url?: string
          p_case_id: string
          p_document_name: string
          p_engine?: string
          p_language?: string
          p_profile?: string
          p_seconds?: number
          p_sha256: string
          p_size_bytes: number
        }
        Returns: Database["public"]["CompositeTypes"]["request_upload_answer"]
        SetofOptions: {
          from: "*"
          to: "request_upload_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      request_webhook: {
        Args: { p_document_id: string; p_url: string }
        Returns: Database["public"]["CompositeTypes"]["request_webhook_answer"]
        SetofOptions: {
          from: "*"
          to: "request_webhook_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      rerun_check_job: {
        Args: { p_all?: boolean; p_job_id: string }
        Returns: Database["public"]["CompositeTypes"]["check_job_change"]
        SetofOptions: {
          from: "*"
          to: "check_job_change"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      rerun_volumes: {
        Args: {
          p_config?: Json
          p_job_id: number
          p_only_failed?: boolean
          p_stage?: string
          p_task_ids?: number[]
        }
        Returns: Database["public"]["CompositeTypes"]["rerun_volumes_answer"]
        SetofOptions: {
          from: "*"
          to: "rerun_volumes_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      resolve_dead_letter: {
        Args: { p_action: string; p_dlq_id: string; p_notes?: string }
        Returns: Database["public"]["CompositeTypes"]["dead_letter_answer"]
        SetofOptions: {
          from: "*"
          to: "dead_letter_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      resolve_dead_letters: {
        Args: { p_action: string; p_filter: Json; p_notes?: string }
        Returns: Database["public"]["CompositeTypes"]["resolve_dead_letters_answer"]
        SetofOptions: {
          from: "*"
          to: "resolve_dead_letters_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      restore_case: {
        Args: { p_case_id: string }
        Returns: Database["public"]["CompositeTypes"]["case_answer"]
        SetofOptions: {
          from: "*"
          to: "case_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      restore_document: {
        Args: { p_document_id: string }
        Returns: Database["public"]["CompositeTypes"]["document_answer"]
        SetofOptions: {
          from: "*"
          to: "document_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      results_by_hour: {
        Args: { p_hours?: number }
        Returns: Database["public"]["CompositeTypes"]["hourly_result"][]
        SetofOptions: {
          from: "*"
          to: "hourly_result"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      resume_lane: {
        Args: { p_lane: string }
        Returns: Database["public"]["CompositeTypes"]["resume_lane_answer"]
        SetofOptions: {
          from: "*"
          to: "resume_lane_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      revoke_role: {
        Args: {
          p_role?: Database["public"]["Enums"]["app_role"]
          p_user_id: string
        }
        Returns: Database["public"]["CompositeTypes"]["role_answer"]
        SetofOptions: {
          from: "*"
          to: "role_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      route_document: {
        Args: { p_document_id: string; p_lane: string; p_notes?: string }
        Returns: Database["public"]["CompositeTypes"]["route_document_answer"]
        SetofOptions: {
          from: "*"
          to: "route_document_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      route_documents: {
        Args: { p_document_ids: string[]; p_lane: string; p_notes?: string }
        Returns: Database["public"]["CompositeTypes"]["route_documents_answer"]
        SetofOptions: {
          from: "*"
          to: "route_documents_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      safe_document_reupload_v2: {
        Args: {
          p_case_id: string
          p_document_name: string
          p_engine?: string
          p_file_extension: string
          p_lane?: string
          p_language?: string
          p_mime_type?: string
          p_new_dropbox_path: string
          p_ocr_status?: string
          p_priority?: number
          p_profile?: string
          p_sha256?: string
          p_size_bytes?: number
        }
        Returns: Json
      }
      save_document_pages: {
        Args: {
          p_document_id: string
          p_engine: string
          p_lock_token: string
          p_now?: string
          p_page_count?: number
          p_pages: Json
          p_profile?: string
          p_version: string
        }
        Returns: Database["public"]["CompositeTypes"]["save_document_pages_answer"]
        SetofOptions: {
          from: "*"
          to: "save_document_pages_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      search_documents: {
        Args: {
          p_case_id?: string
          p_language?: string
          p_limit?: number
          p_offset?: number
          p_query: string
        }
        Returns: Database["public"]["CompositeTypes"]["search_hit"][]
        SetofOptions: {
          from: "*"
          to: "search_hit"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      set_alert_rule: {
        Args: { p_changes: Json; p_rule: string }
        Returns: Database["public"]["CompositeTypes"]["alert_rule_answer"]
        SetofOptions: {
          from: "*"
          to: "alert_rule_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      set_function: {
        Args: {
          p_enabled?: boolean
          p_function_name: string
          p_schedule?: string
        }
        Returns: Database["public"]["CompositeTypes"]["set_function_answer"]
        SetofOptions: {
          from: "*"
          to: "set_function_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      set_task_priority: {
        Args: { p_priority: string; p_task_id: string }
        Returns: Database["public"]["CompositeTypes"]["task_answer"]
        SetofOptions: {
          from: "*"
          to: "task_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      settle_alert_notice: {
        Args: {
          p_attempt: number
          p_error?: string
          p_id: string
          p_is_set_up?: boolean
          p_now?: string
        }
        Returns: boolean
      }
      settle_volume_outbox: { Args: { p_messages: Json }; Returns: number }
      settle_webhook: {
        Args: {
          p_attempt: number
          p_error?: string
          p_final?: boolean
          p_id: string
          p_now?: string
        }
        Returns: boolean
      }
      share_case: {
        Args: { p_case_id: string; p_role?: string; p_user_id: string }
        Returns: Database["public"]["CompositeTypes"]["case_answer"]
        SetofOptions: {
          from: "*"
          to: "case_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      share_case_by_email: {
        Args: { p_case_id: string; p_email: string; p_role?: string }
        Returns: Database["public"]["CompositeTypes"]["case_answer"]
        SetofOptions: {
          from: "*"
          to: "case_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      silence_alerts: {
        Args: { p_minutes: number; p_reason: string; p_rule?: string }
        Returns: Database["public"]["CompositeTypes"]["silence_answer"]
        SetofOptions: {
          from: "*"
          to: "silence_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      start_volume_stage: {
        Args: {
          p_attempt: number
          p_lock_seconds?: number
          p_now?: string
          p_stage: string
          p_task_id: number
          p_worker_id: string
        }
        Returns: Database["public"]["CompositeTypes"]["start_volume_stage_answer"]
        SetofOptions: {
          from: "*"
          to: "start_volume_stage_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      stuck_documents: {
        Args: { p_limit?: number }
        Returns: Database["public"]["CompositeTypes"]["stuck_document"][]
        SetofOptions: {
          from: "*"
          to: "stuck_document"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      submit_check_job: {
        Args: {
          p_allowed?: string[]
          p_callback_url?: string
          p_engine?: string
          p_idempotency_key?: string
          p_images: Json
          p_job_id: string
          p_language: string
          p_name?: string
          p_reading_language?: string
          p_request_digest?: string
          p_seconds?: number
        }
        Returns: Database["public"]["CompositeTypes"]["submit_check_job_answer"]
        SetofOptions: {
          from: "*"
          to: "submit_check_job_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      sweep_documents: { Args: { p_now?: string }; Returns: number }
      system_metrics: {
        Args: { p_now?: string }
        Returns: Database["public"]["CompositeTypes"]["system_metrics_answer"]
        SetofOptions: {
          from: "*"
          to: "system_metrics_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      take_engine_call: {
        Args: { p_engine: string; p_now?: string; p_per_second: number }
        Returns: number
      }
      test_alert: {
        Args: { p_rule: string }
        Returns: Database["public"]["CompositeTypes"]["alert_rule_answer"]
        SetofOptions: {
          from: "*"
          to: "alert_rule_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      type_text: {
        Args: { p_document_id: string; p_pages: Json }
        Returns: Database["public"]["CompositeTypes"]["type_text_answer"]
        SetofOptions: {
          from: "*"
          to: "type_text_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      unknown_files: { Args: { p_paths: string[] }; Returns: string[] }
      volume_board: {
        Args: { p_job_id: number }
        Returns: Database["public"]["CompositeTypes"]["volume_board_answer"]
        SetofOptions: {
          from: "*"
          to: "volume_board_answer"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      volume_history: {
        Args: { p_limit?: number; p_task_id: number }
        Returns: {
          attempt: number
          ended_at: string | null
          error: Json | null
          failed_pages: number | null
          id: number
          job_id: number
          metrics: Json | null
          outcome: string | null
          pages: number | null
          stage: string
          started_at: string
          task_id: number
          token: string
          worker_id: string
        }[]
        SetofOptions: {
          from: "*"
          to: "volume_runs"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      wait_for_documents: { Args: { p_lanes?: string[] }; Returns: number }
    }
    Enums: {
      app_role: "admin" | "user"
    }
    CompositeTypes: {
      acquire_document_lock_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        lock_token: string | null
        document:
          | Database["public"]["CompositeTypes"]["claimed_document"]
          | null
      }
      alert_rule_answer: {
        success: boolean | null
        rule: string | null
      }
      apply_retention_answer: {
        documents: number | null
        errors: number | null
        webhooks: number | null
        messages: number | null
      }
      assign_pool_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        switches: number | null
      }
      assignable_worker: {
        worker_id: string | null
        lane: string | null
        is_idle: boolean | null
        seconds: number | null
        lanes: string[] | null
      }
      cancel_volume_job_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        id: number | null
        job_id: number | null
        taken_back: number | null
      }
      case_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        case_id: string | null
        documents: number | null
      }
      case_contents_answer: {
        documents: number | null
        deleted: number | null
        pages: number | null
        files: number | null
        bytes: number | null
        statuses: Json | null
      }
      case_person: {
        user_id: string | null
        email: string | null
        role: string | null
        since: string | null
      }
      check_image_expectation: {
        position: number | null
        image: string | null
        reference: string[] | null
      }
      check_image_page: {
        run_id: number | null
        page_number: number | null
        document_id: string | null
        case_id: string | null
        status: string | null
        text: string | null
        language: string | null
        lines: Json | null
        confidence: number | null
        width: number | null
        height: number | null
        error: string | null
        processing_time_ms: number | null
        details: Json | null
        created_at: string | null
      }
      check_job_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        job_id: string | null
        job: Database["public"]["CompositeTypes"]["check_job_details"] | null
      }
      check_job_change: {
        success: boolean | null
        error: string | null
        message: string | null
        job_id: string | null
        status: string | null
        images: number | null
      }
      check_job_details: {
        jobId: string | null
        name: string | null
        status: string | null
        language: string | null
        languageChecked: boolean | null
        run: number | null
        error: string | null
        createdAt: string | null
        startedAt: string | null
        endedAt: string | null
        images: number | null
        checked: number | null
        pass: number | null
        manual: number | null
        undecided: number | null
        results:
          | Database["public"]["CompositeTypes"]["check_job_result"][]
          | null
      }
      check_job_purge: {
        purged: number | null
        erased: number | null
      }
      check_job_result: {
        image: string | null
        position: number | null
        documentId: string | null
        reference: string[] | null
        extractedText: string | null
        match: boolean | null
        verdict: string | null
        issues: Json | null
        strings: Json | null
        width: number | null
        height: number | null
        decision: string | null
        languageChecked: boolean | null
        error: string | null
      }
      check_job_summary: {
        jobId: string | null
        name: string | null
        status: string | null
        language: string | null
        languageChecked: boolean | null
        run: number | null
        error: string | null
        createdAt: string | null
        startedAt: string | null
        endedAt: string | null
        images: number | null
        checked: number | null
        pass: number | null
        manual: number | null
        undecided: number | null
      }
      claimed_alert_notice: {
        id: string | null
        attempt: number | null
        channel: string | null
        body: Json | null
      }
      claimed_document: {
        id: string | null
        lock_token: string | null
        lock_expires_at: string | null
        attempt_deadline: string | null
        case_id: string | null
        name: string | null
        lane: string | null
        dropbox_path: string | null
        mime_type: string | null
        sha256: string | null
        size_bytes: number | null
        document_version: number | null
        engine: string | null
        language: string | null
        profile: string | null
        reading: number | null
        page_count: number | null
        attempts: number | null
        retry_count: number | null
        max_attempts: number | null
        priority: number | null
      }
      claimed_webhook: {
        id: string | null
        url: string | null
        attempt: number | null
        body: Json | null
      }
      complete_check_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        log_id: string | null
        missing: number[] | null
      }
      complete_documents_answer: {
        id: string | null
        refusal: string | null
        missing: number[] | null
        claimed: Database["public"]["CompositeTypes"]["claimed_document"] | null
      }
      confirm_upload_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document:
          | Database["public"]["CompositeTypes"]["uploaded_document"]
          | null
      }
      correct_page_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        page_number: number | null
        version: number | null
        text: string | null
        corrected_by: string | null
        corrected_at: string | null
      }
      counted_events: {
        counter: string | null
        labels: string[] | null
        events: number | null
        seconds: number | null
      }
      create_volume_job_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        job_id: number | null
        job_key: string | null
        volumes: number | null
      }
      dead_letter_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        dlq_id: string | null
        document_id: string | null
        name: string | null
        status: string | null
        resolved_by: string | null
        resolved_at: string | null
        investigated_by: string | null
      }
      dead_letter_group: {
        error_group: string | null
        letters: number | null
        error_categories: string[] | null
        cases: number | null
        first_failed_at: string | null
        last_failed_at: string | null
      }
      decide_check_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        job_id: string | null
        position: number | null
        decision: string | null
      }
      dispatch_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        begun: boolean | null
      }
      document_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        ocr_status: string | null
      }
      document_event: {
        at: string | null
        source: string | null
        kind: string | null
        attempt: number | null
        worker_id: string | null
        engine: string | null
        error_category: string | null
        message: string | null
        details: Json | null
        person: string | null
      }
      document_progress_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        case_id: string | null
        name: string | null
        lane: string | null
        ocr_status: string | null
        document_version: number | null
        pages_done: number | null
        page_count: number | null
        attempts: number | null
        retry_at: string | null
        ahead: number | null
        seconds_left: number | null
        created_at: string | null
        claimed_at: string | null
        completed_at: string | null
      }
      doubtful_document: {
        document_id: string | null
        case_id: string | null
        case_name: string | null
        name: string | null
        pages: number | null
        unread: number | null
        first_page: number | null
        confidence: number | null
        created_at: string | null
      }
      erase_archived_document_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
      }
      evaluate_alerts_answer: {
        evaluated: number | null
        open: number | null
      }
      extend_document_lock_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        lock_expires_at: string | null
      }
      fail_document_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        status: string | null
        retry_count: number | null
        retry_at: string | null
        dlq_id: string | null
      }
      file_to_remove: {
        id: number | null
        path: string | null
      }
      function_run: {
        started_at: string | null
        seconds: number | null
        outcome: string | null
        error: string | null
        result: Json | null
      }
      get_check_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        language: string | null
        allowed: string[] | null
        images:
          | Database["public"]["CompositeTypes"]["check_image_expectation"][]
          | null
        pages: Database["public"]["CompositeTypes"]["check_image_page"][] | null
      }
      give_back_documents_answer: {
        success: boolean | null
        done: number | null
        documents:
          | Database["public"]["CompositeTypes"]["given_back_document"][]
          | null
        skipped:
          | Database["public"]["CompositeTypes"]["skipped_document"][]
          | null
      }
      given_back_document: {
        document_id: string | null
        name: string | null
        ocr_status: string | null
      }
      hourly_result: {
        hour: string | null
        completed: number | null
        dead_lettered: number | null
        retries: number | null
        avg_seconds_to_text: number | null
      }
      labelled_count: {
        label: string | null
        count: number | null
      }
      lane_metrics: {
        lane: string | null
        paused: boolean | null
        queued: number | null
        later: number | null
        processing: number | null
        stuck: number | null
        oldest_seconds: number | null
        assigned_workers: number | null
        reading_workers: number | null
      }
      lead_pool_answer: {
        term: number | null
        backlog: Json | null
        workers:
          | Database["public"]["CompositeTypes"]["assignable_worker"][]
          | null
      }
      listed_act: {
        id: string | null
        created_at: string | null
        user_id: string | null
        email: string | null
        action_type: string | null
        description: string | null
        case_id: string | null
        case_name: string | null
        document_id: string | null
        document_name: string | null
        field_changed: string | null
        old_value: string | null
        new_value: string | null
        about_email: string | null
      }
      listed_alert_rule: {
        rule: string | null
        metric: string | null
        comparison: string | null
        threshold: number | null
        window_seconds: number | null
        hold_seconds: number | null
        calm_seconds: number | null
        at_least: number | null
        severity: string | null
        enabled: boolean | null
        advice: string | null
        updated_at: string | null
        description: string | null
        unit: string | null
        value: number | null
        events: number | null
        detail: string | null
        broken_since: string | null
        calm_since: string | null
        evaluated_at: string | null
        alert_id: number | null
        fired_at: string | null
        silenced: boolean | null
      }
      listed_case: {
        case_id: string | null
        name: string | null
        kind: string | null
        is_inbox: boolean | null
        owner_email: string | null
        role: string | null
        created_at: string | null
        documents: number | null
        completed: number | null
        has_more: boolean | null
        attention: number | null
      }
      listed_dead_letter: {
        dlq_id: string | null
        document_id: string | null
        document_name: string | null
        case_id: string | null
        case_name: string | null
        lane: string | null
        ocr_status: string | null
        page_count: number | null
        status: string | null
        error_category: string | null
        error_group: string | null
        last_error_message: string | null
        failure_count: number | null
        first_failed_at: string | null
        last_failed_at: string | null
        reviewed_by: string | null
        reviewed_at: string | null
        resolution_notes: string | null
      }
      listed_document: {
        document_id: string | null
        case_id: string | null
        case_name: string | null
        name: string | null
        lane: string | null
        ocr_status: string | null
        page_count: number | null
        created_at: string | null
        ocr_completed_at: string | null
      }
      listed_function: {
        function_name: string | null
        enabled: boolean | null
        schedule: string | null
        description: string | null
        lanes: string[] | null
        updated_at: string | null
        last_run_at: string | null
        runs: Database["public"]["CompositeTypes"]["function_run"][] | null
      }
      listed_lane: {
        lane: string | null
        description: string | null
        queued: number | null
        later: number | null
        processing: number | null
        paused_at: string | null
        pause_kind: string | null
        pause_reason: string | null
        paused_by: string | null
        probe_at: string | null
        max_attempts: number | null
        max_rescues: number | null
        backoff_seconds: number | null
        backoff_cap_seconds: number | null
        attempt_seconds: number | null
        failed_pages_allowed: number | null
      }
      listed_person: {
        user_id: string | null
        email: string | null
        is_admin: boolean | null
        cases: number | null
        created_at: string | null
        last_sign_in_at: string | null
      }
      listed_task: {
        task_id: string | null
        kind: string | null
        title: string | null
        description: string | null
        priority: string | null
        urgency: number | null
        status: string | null
        assigned_to: string | null
        assigned_email: string | null
        created_at: string | null
        metadata: Json | null
        document_id: string | null
        document_name: string | null
        ocr_status: string | null
        lane: string | null
        file_extension: string | null
        mime_type: string | null
        size_bytes: number | null
        page_count: number | null
        case_id: string | null
        case_name: string | null
      }
      listed_volume_job: {
        job_id: number | null
        job_key: string | null
        owner_id: string | null
        status: string | null
        config: Json | null
        volumes: number | null
        done: number | null
        failed: number | null
        in_hand: number | null
        created_at: string | null
        finished_at: string | null
      }
      listed_volume_task: {
        task_id: number | null
        volume_id: number | null
        bdrc_w_id: string | null
        bdrc_i_id: string | null
        stage: string | null
        status: string | null
        rank: number | null
        attempts: number | null
        max_attempts: number | null
        last_error: Json | null
        worker: string | null
        pages_done: number | null
        pages_total: number | null
        started_at: string | null
        done_at: string | null
        seconds: Json | null
        result: Database["public"]["CompositeTypes"]["volume_figures"] | null
      }
      listed_worker: {
        worker_id: string | null
        state: string | null
        lanes: string[] | null
        started_at: string | null
        seen_at: string | null
        in_hand: number | null
        documents:
          | Database["public"]["CompositeTypes"]["worker_document"][]
          | null
        completed: number | null
      }
      move_to_dead_letter_queue_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        dlq_id: string | null
      }
      orchestrate_volumes_answer: {
        published: number | null
        republished: number | null
        rescued: number | null
        completed: number | null
        failed: number | null
        is_more: boolean | null
        is_reconciling: boolean | null
        is_busy: boolean | null
        outbox: number | null
        retry_in: number | null
      }
      page_version: {
        version: number | null
        author: string | null
        author_email: string | null
        approved: boolean | null
        length: number | null
        created_at: string | null
      }
      pause_lane_answer: {
        success: boolean | null
        lane: string | null
      }
      pool_history_point: {
        at: string | null
        backlog: Json | null
        allocation: Json | null
        switches: number | null
      }
      pool_leader: {
        process: string | null
        term: number | null
        since: string | null
        is_late: boolean | null
      }
      pool_member: {
        worker_id: string | null
        process: string | null
        lanes: string[] | null
        lane: string | null
        lane_since: string | null
        lane_reason: string | null
        switches: number | null
        reads_lane: string | null
        reads_document: string | null
        started_at: string | null
        seen_at: string | null
        document_name: string | null
        claimed_at: string | null
      }
      pool_status_answer: {
        backlog: Json | null
        paused: string[] | null
        leader: Database["public"]["CompositeTypes"]["pool_leader"] | null
        workers: Database["public"]["CompositeTypes"]["pool_member"][] | null
        history:
          | Database["public"]["CompositeTypes"]["pool_history_point"][]
          | null
        switches: Database["public"]["CompositeTypes"]["pool_switch"][] | null
      }
      pool_switch: {
        at: string | null
        worker_id: string | null
        from_lane: string | null
        to_lane: string | null
        reason: string | null
      }
      process_ocr_atomic_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        log_id: string | null
        missing: number[] | null
      }
      read_again_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        reading: number | null
        ocr_status: string | null
      }
      recover_stuck_documents_answer: {
        success: boolean | null
        recovered: number | null
        documents: string[] | null
      }
      refused_document: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
      }
      release_documents_answer: {
        success: boolean | null
        released: string[] | null
        failed: string[] | null
        lost: Database["public"]["CompositeTypes"]["refused_document"][] | null
      }
      report_pool_answer: {
        lanes: Json | null
        reading: Json | null
        waiting: string[] | null
      }
      request_upload_answer: {
        upload_id: string | null
        expires_at: string | null
      }
      request_webhook_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        webhook_id: string | null
      }
      rerun_volumes_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        id: number | null
        job_id: number | null
        rerun: number | null
        skipped: number | null
      }
      resolve_dead_letters_answer: {
        success: boolean | null
        resolved: number | null
        documents:
          | Database["public"]["CompositeTypes"]["dead_letter_answer"][]
          | null
        skipped:
          | Database["public"]["CompositeTypes"]["dead_letter_answer"][]
          | null
      }
      resume_lane_answer: {
        success: boolean | null
        lane: string | null
        was_paused: boolean | null
      }
      role_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        user_id: string | null
        changed: boolean | null
      }
      route_document_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        lane: string | null
        ocr_status: string | null
      }
      route_documents_answer: {
        success: boolean | null
        done: number | null
        documents: string[] | null
        skipped:
          | Database["public"]["CompositeTypes"]["skipped_document"][]
          | null
      }
      safe_document_reupload_v2_answer: {
        success: boolean | null
        document_id: string | null
        version: number | null
        document_version: number | null
        ocr_status: string | null
        existing: boolean | null
      }
      save_document_pages_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        run_id: number | null
        saved: number[] | null
      }
      search_hit: {
        document_id: string | null
        case_id: string | null
        name: string | null
        page_number: number | null
        rank: number | null
        headline: string | null
      }
      set_function_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        function_name: string | null
        enabled: boolean | null
        schedule: string | null
      }
      silence_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        silence_id: number | null
        ends_at: string | null
      }
      skipped_document: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        name: string | null
      }
      start_volume_stage_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        id: number | null
        retry_after: number | null
        task_id: number | null
        token: string | null
        stage: string | null
        job_key: string | null
        bdrc_w_id: string | null
        bdrc_i_id: string | null
        config: Json | null
        is_forced: boolean | null
        stage_seconds: number | null
        seconds_before: number | null
      }
      stuck_document: {
        document_id: string | null
        name: string | null
        case_id: string | null
        case_name: string | null
        lane: string | null
        locked_by: string | null
        claimed_at: string | null
        held_seconds: number | null
        silent_seconds: number | null
        lock_expires_at: string | null
        attempt_deadline: string | null
        swept_at: string | null
        sweep_due_at: string | null
        pages_done: number | null
        page_count: number | null
        retry_count: number | null
        max_attempts: number | null
        rescues: number | null
        max_rescues: number | null
        new_pages: number | null
      }
      submit_check_job_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        job_id: string | null
        existing: boolean | null
      }
      system_metrics_answer: {
        lanes: Database["public"]["CompositeTypes"]["lane_metrics"][] | null
        dead_letters:
          | Database["public"]["CompositeTypes"]["labelled_count"][]
          | null
        open_alerts:
          | Database["public"]["CompositeTypes"]["labelled_count"][]
          | null
        open_tasks: number | null
        workers: Database["public"]["CompositeTypes"]["labelled_count"][] | null
        open_check_jobs: number | null
        volume_stages:
          | Database["public"]["CompositeTypes"]["volume_stage_metrics"][]
          | null
        counters:
          | Database["public"]["CompositeTypes"]["counted_events"][]
          | null
        extractions:
          | Database["public"]["CompositeTypes"]["labelled_count"][]
          | null
      }
      task_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        task_id: string | null
      }
      type_text_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        document_id: string | null
        log_id: string | null
      }
      uploaded_document: {
        document_id: string | null
        case_id: string | null
        name: string | null
        document_version: number | null
        ocr_status: string | null
        existing: boolean | null
      }
      volume_board_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        id: number | null
        job_id: number | null
        job_key: string | null
        status: string | null
        config: Json | null
        created_at: string | null
        finished_at: string | null
        stages:
          | Database["public"]["CompositeTypes"]["volume_stage_count"][]
          | null
        in_hand_by_stage: Json | null
        in_hand:
          | Database["public"]["CompositeTypes"]["volume_in_progress"][]
          | null
        outage: Json | null
        timing: Json | null
        orchestrator:
          | Database["public"]["CompositeTypes"]["volume_orchestrator_pass"]
          | null
      }
      volume_figures: {
        total_images: number | null
        total_lines: number | null
        total_characters: number | null
        processing_duration_ms: number | null
        dewarping_applied_count: number | null
        metrics: Json | null
        created_at: string | null
        updated_at: string | null
      }
      volume_in_progress: {
        task_id: number | null
        bdrc_w_id: string | null
        bdrc_i_id: string | null
        stage: string | null
        worker: string | null
        started_at: string | null
        seconds: number | null
        pages_done: number | null
        pages_total: number | null
      }
      volume_orchestrator_pass: {
        passed_at: string | null
        by: string | null
      }
      volume_outbox_message: {
        stage: string | null
        message: Json | null
      }
      volume_stage_answer: {
        success: boolean | null
        error: string | null
        message: string | null
        id: number | null
        task_id: number | null
        is_counted: boolean | null
        is_final: boolean | null
        attempts: number | null
      }
      volume_stage_count: {
        stage: string | null
        status: string | null
        volumes: number | null
      }
      volume_stage_message: {
        stage: string | null
        handle: number | null
        message: Json | null
      }
      volume_stage_metrics: {
        stage: string | null
        queued: number | null
        processing: number | null
        later: number | null
        oldest_seconds: number | null
      }
      worker_document: {
        document_id: string | null
        name: string | null
        lane: string | null
        claimed_at: string | null
        page_count: number | null
        pages_done: number | null
      }
    }
  }
}

type DatabaseWithoutInternals = Omit<Database, "__InternalSupabase">

type DefaultSchema = DatabaseWithoutInternals[Extract<keyof Database, "public">]

export type Tables<
  DefaultSchemaTableNameOrOptions extends
    | keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends (DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof (DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"] &
        DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"])
    : never) = never,
> = DefaultSchemaTableNameOrOptions extends {
  schema: keyof DatabaseWithoutInternals
}
  ? (DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"] &
      DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"])[TableName] extends {
      Row: infer R
    }
    ? R
    : never
  : DefaultSchemaTableNameOrOptions extends keyof (DefaultSchema["Tables"] &
        DefaultSchema["Views"])
    ? (DefaultSchema["Tables"] &
        DefaultSchema["Views"])[DefaultSchemaTableNameOrOptions] extends {
        Row: infer R
      }
      ? R
      : never
    : never

export type TablesInsert<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends (DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never) = never,
> = DefaultSchemaTableNameOrOptions extends {
  schema: keyof DatabaseWithoutInternals
}
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends {
      Insert: infer I
    }
    ? I
    : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
    ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
        Insert: infer I
      }
      ? I
      : never
    : never

export type TablesUpdate<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends (DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never) = never,
> = DefaultSchemaTableNameOrOptions extends {
  schema: keyof DatabaseWithoutInternals
}
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends {
      Update: infer U
    }
    ? U
    : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
    ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
        Update: infer U
      }
      ? U
      : never
    : never

export type Enums<
  DefaultSchemaEnumNameOrOptions extends
    | keyof DefaultSchema["Enums"]
    | { schema: keyof DatabaseWithoutInternals },
  EnumName extends (DefaultSchemaEnumNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"]
    : never) = never,
> = DefaultSchemaEnumNameOrOptions extends {
  schema: keyof DatabaseWithoutInternals
}
  ? DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"][EnumName]
  : DefaultSchemaEnumNameOrOptions extends keyof DefaultSchema["Enums"]
    ? DefaultSchema["Enums"][DefaultSchemaEnumNameOrOptions]
    : never

export type CompositeTypes<
  PublicCompositeTypeNameOrOptions extends
    | keyof DefaultSchema["CompositeTypes"]
    | { schema: keyof DatabaseWithoutInternals },
  CompositeTypeName extends (PublicCompositeTypeNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"]
    : never) = never,
> = PublicCompositeTypeNameOrOptions extends {
  schema: keyof DatabaseWithoutInternals
}
  ? DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"][CompositeTypeName]
  : PublicCompositeTypeNameOrOptions extends keyof DefaultSchema["CompositeTypes"]
    ? DefaultSchema["CompositeTypes"][PublicCompositeTypeNameOrOptions]
    : never

export const Constants = {
  public: {
    Enums: {
      app_role: ["admin", "user"],
    },
  },
} as const
