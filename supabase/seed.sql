-- Demo documents of every lane, already read: for a fresh project. `supabase db reset` and
-- `supabase db push --include-seed` run this file (config.toml); it may run any number of times.
--
-- SQL cannot bring files, so these documents have pages and text but no file, nothing waits to be read,
-- and they cannot be read again. They go through the functions that upload and worker call. To remove
-- them, erase the case "Demo" and the check job "Demo" in the dashboard.
do $seed$
declare
  v_case constant uuid := 'd3300000-0000-4000-8000-000000000001';
  v_job constant uuid := 'd3300000-0000-4000-8000-000000000002';
  v_demo record;
  v_document uuid;
  v_lock jsonb;
  v_pages jsonb;
begin
  if exists (select 1 from public.cases as c where c.id in (v_case, v_job)) then
    return;
  end if;
  perform set_config('request.jwt.claims', '{"role": "service_role"}', true);
  insert into public.cases (id, name) values (v_case, 'Demo');
  perform public.submit_check_job(v_job, 'fr', p_name => 'Demo', p_images => jsonb_build_array(
    jsonb_build_object(
      'name', 'start.png', 'dropbox_path', v_job || '/demo/start.png', 'sha256', repeat('0', 63) || '1',
      'reference', jsonb_build_array('Bienvenue', 'Nouveau document')
    ),
    jsonb_build_object(
      'name', 'save.png', 'dropbox_path', v_job || '/demo/save.png', 'sha256', repeat('0', 63) || '2',
      'reference', jsonb_build_array('Enregistrer')
    )
  ));

  -- One array element for each page; an empty line separates blocks, "~" marks an unsure line.
  for v_demo in
    select *
    from (values
      ('image', 'letter-1952.png', 'en', array[
        E'Harbour Office\n14 March 1952\n\nDear Sir,\n\nWe confirm the receipt of your letter of the 3rd of this month,\n'
        'in which you ask for a copy of the register of ships.\nThe register was moved to the archive of the city in 1948.\n'
        'A copy of pages 12 to 17 is enclosed.\n\nYours faithfully,\nThe Registrar'
      ]),
      ('image', 'receipt.jpg', 'en', array[
        E'~Grocer & S0n\n~3 High Streel\n\nBread 0.80\n~Mi1k 1,20\nTotal 2.00'
      ]),
      ('pdf', 'report-2019.pdf', 'en', array[
        E'Case file 77 / 2019\nContents\n\n1. Complaint\n2. Report of the expert\n3. Decision',
        E'Report of the expert\n\nThe wall between the two gardens was built before 1920.\n'
        'It stands on the land of the northern neighbour.',
        E'Decision\n\nThe claim is dismissed.\nThe costs are shared equally.'
      ]),
      ('index', 'index-311.jpg', 'fr', array[
        E'INDEX DES IMMEUBLES\nLot 311, cadastre de Saint-Martin\n\n1874-10-09  Vente  No 23\n1902-05-17  Hypothèque  No 418\n'
        '1911-02-01  Quittance  No 77'
      ]),
      ('acte', 'acte-1874-23.jpg', 'fr', array[
        E'ACTE DE VENTE\nNo 23 de l''an 1874\n\nLe lot 311 de la commune de Saint-Martin, borné au nord par le chemin du moulin,\n'
        'est vendu à la veuve du dernier propriétaire, avec tous les droits et charges.\n\nPrix : mille deux cent cinquante livres.',
        E'Enregistré le neuf octobre mil huit cent soixante-quatorze.\n\nLe greffier'
      ]),
      ('check', 'start.png', 'fr', array[E'Bienvenue\n\nNouveau document']),
      ('check', 'save.png', 'fr', array[E'Enregistr'])
    ) as d (lane, name, language, pages)
  loop
    case v_demo.lane
      when 'check' then
        select i.document_id into v_document
        from public.check_images as i where i.job_id = v_job and i.name = v_demo.name;
      when 'image', 'pdf' then
        v_document := public.safe_document_reupload_v2(
          v_case, v_demo.name, null, split_part(v_demo.name, '.', 2), p_lane => v_demo.lane, p_language => v_demo.language
        ) ->> 'document_id';
      else
        insert into public.extraction_queue (case_id, document_source, document_name, language, worker_id, status_id, dropbox_path)
        values (v_case, v_demo.lane, v_demo.name, v_demo.language, 'demo', 3, v_case || '/demo/' || v_demo.name)
        returning id into v_document;
    end case;
    select jsonb_agg(p.page order by p.number) into v_pages
    from (
      select u.number, jsonb_build_object(
          'page_number', u.number, 'language', v_demo.language, 'width', 1240, 'height', 1754,
          'text', string_agg(l.line, E'\n' order by l.number), 'confidence', round(avg(l.confidence), 3),
          'details', '{"source": "ocr", "dpi": 150, "rotation": 0, "skew": 0, "engine": "rapid"}'::jsonb,
          'lines', jsonb_agg(
            jsonb_build_object(
              'text', l.line, 'confidence', l.confidence, 'block', l.block, 'words', '[]'::jsonb,
              'quad', format('[[120,%1$s],[%3$s,%1$s],[%3$s,%2$s],[120,%2$s]]', l.y, l.y + 30, 120 + 13 * length(l.line))::jsonb
            ) order by l.number
          ) filter (where l.line <> '')
        ) as page
      from unnest(v_demo.pages) with ordinality as u (text, number)
      cross join lateral (
        select k.number, ltrim(k.line, '~') as line, case when k.line like '~%' then 0.55 else 0.97 end as confidence,
          count(*) filter (where k.line = '') over (order by k.number) as block, 100 + 45 * k.number as y
        from string_to_table(u.text, E'\n') with ordinality as k (line, number)
      ) as l
      group by u.number
    ) as p;

    v_lock := public.acquire_document_lock(v_document, 'demo');
    perform public.save_document_pages(
      v_document, (v_lock ->> 'lock_token')::uuid, v_pages, 'rapid', 'demo', p_page_count => jsonb_array_length(v_pages)
    );
    if v_demo.lane = 'check' then
      perform public.complete_check(
        v_document,
        jsonb_build_array(jsonb_build_object(
          'position', case v_demo.name when 'start.png' then 1 else 2 end,
          'verdict', case v_demo.name when 'start.png' then 'PASS' else 'MANUAL' end,
          'match', v_demo.name = 'start.png', 'extracted_text', v_demo.pages[1], 'width', 1240, 'height', 1754,
          'strings', case v_demo.name
            when 'start.png' then
              '[{"expected": "Bienvenue", "found": "Bienvenue", "verdict": "match"},
                {"expected": "Nouveau document", "found": "Nouveau document", "verdict": "match"}]'::jsonb
            else '[{"expected": "Enregistrer", "found": "Enregistr", "verdict": "truncated"}]'::jsonb
          end,
          'issues', case v_demo.name
            when 'start.png' then '[]'::jsonb
            else '[{"kind": "truncated", "severity": "error", "message": "the text ends before its last letters", "diff": [],
              "expected": "Enregistrer", "found": "Enregistr", "quad": [[120, 145], [237, 145], [237, 175], [120, 175]]}]'::jsonb
          end
        )),
        0.97, 500, (v_lock ->> 'lock_token')::uuid, 'rapid', 'demo', p_page_count => 1
      );
    else
      perform public.process_ocr_atomic(
        v_document, '{"demo": true}', 0.97, 500, (v_lock ->> 'lock_token')::uuid, 'rapid', 'demo',
        p_page_count => jsonb_array_length(v_pages)
      );
    end if;
  end loop;

  -- A path or a digest would claim that there is a file.
  update public.documents as d set dropbox_path = null, sha256 = null where d.case_id in (v_case, v_job);
end;
$seed$;
